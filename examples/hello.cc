// The smallest whole flow in C++: a capability, one WRITE, one READ.
//   g++ -o hello hello.cc $(pkg-config --cflags --libs rdma++)
//   verbena run -- ./hello server              in one terminal
//   verbena run -- ./hello client 127.0.0.1    in another one, or on another host
#include <rdma++/rdma.h>

#include <cstdio>
#include <string>

using rdma::Access, rdma::Buffer, rdma::Connection;

void server() {
  rdma::Listener listener{7471};
  std::puts("server: listening on port 7471");
  Connection connection = listener.accept({.timeout = std::chrono::minutes{1}});
  // Whoever holds remote() may write and read here.
  Buffer memory = connection.buffer(64, Access::remote_write | Access::remote_read);
  connection.send_value(memory.remote());
  // Nothing completes here when the client writes. barrier() waits until the client says so.
  connection.barrier();
  std::printf("server: found \"%s\"\n", std::string{memory.text()}.c_str());
}

void client(const std::string& host) {
  Connection connection = Connection::connect(host, 7471);
  const auto remote = connection.recv_value<rdma::RemoteBuffer>();
  Buffer greeting = connection.buffer(64), echo = connection.buffer(64);
  greeting.set_text("hello from C++");
  connection.write(greeting, remote);  // each throws when its request fails
  std::puts("client: WRITE done");
  connection.read(echo, remote);
  std::printf("client: READ done, \"%s\"\n", std::string{echo.text()}.c_str());
  connection.barrier();
}

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string role = argc > 1 ? argv[1] : "";
  if (!(role == "server" && argc == 2) && !(role == "client" && argc == 3)) {
    std::fputs("usage: hello server | client HOST\n", stderr);
    return 2;
  }
  try {
    role == "server" ? server() : client(argv[2]);
  } catch (const rdma::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
