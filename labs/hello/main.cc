// Lab: hello
//
// Learn: the smallest whole flow. Resolve and connect; the server hands out a capability
//        {addr, rkey} in the private data of the connection; with it the client WRITEs into the
//        server's memory and READs it back, and the server's program takes no part in either.
// Run:   verbena lab hello                  both ends on this machine
//        verbena lab hello server | verbena lab hello client HOST
// Try:   --drop 5% --stats; --without remote_write

#include "labs/common/connect.h"
#include "labs/common/cost.h"

namespace {

constexpr std::string_view kGreeting = "hello from the client";
constexpr std::size_t kMost = std::size_t{1} << 30;
rdma::Access access = rdma::Access::remote_write | rdma::Access::remote_read;

void server(const lab::Options& options) {
  rdma::Listener listener = lab::listen(options);
  rdma::ConnectionRequest request = lab::next_request(options, listener);

  // 1. Expose memory. The access says what a peer may do here. Without it, step 4 ends in a remote
  //    access error.
  rdma::ProtectionDomain pd{request.context()};
  rdma::Buffer memory{pd, options.size, access};

  // 2. Accept, with the capability in the private data: whoever holds it may write and read here.
  rdma::ConnectionOptions answer = lab::within(options);
  answer.pd = &pd;
  answer.offer(memory.remote());
  rdma::Connection connection = lab::accept(options, request, answer);
  lab::say("accepted {}; it may write to {} bytes at {:#x} with rkey {:#x}",
           connection.peer().to_string(), options.size, memory.remote().addr, memory.rkey());

  // 5. Nothing completes here: no receive was posted, and none is needed. Only the client can say
  //    that the bytes are there. Its goodbye does.
  lab::Work work;
  lab::wait_for_goodbye(options, connection);
  work.done();
  lab::check(memory.text() == kGreeting, "found \"{}\" instead of the greeting", memory.text());
  lab::say("found \"{}\" in its memory; it has received nothing", memory.text());
}

void client(const lab::Options& options) {
  // 3. Connect: address, route and queue pair states are rdma_cm's work.
  rdma::Connection connection = lab::connect(options);
  const auto remote = lab::offered<rdma::RemoteBuffer>(connection);
  lab::say("connected to {}, which offers {} bytes", connection.peer().to_string(), remote.length);

  // 4. One WRITE, one READ. Each returns when its completion has come.
  lab::Work work;
  rdma::Buffer greeting = connection.buffer(kGreeting.size());
  greeting.set_text(kGreeting);
  connection.write(greeting, remote.slice(0, greeting.size()));
  rdma::Buffer echo = connection.buffer(kGreeting.size());
  connection.read(echo, remote.slice(0, echo.size()));
  work.done({.round_trips = 2, .needed = 2});
  lab::check(echo.text() == kGreeting, "read back \"{}\"", echo.text());
  lab::say("wrote it and read it back: \"{}\"", echo.text());

  // 6. A clean goodbye. The server learns that the client has finished.
  lab::say_goodbye(options, connection);
  lab::shown("a capability in private data, one WRITE, one READ, {} bytes each", echo.size());
}

void add_options(lab::OwnOptions& own) {
  own.choice(
      "--without", access,
      {{"remote_write", rdma::Access::remote_read}, {"remote_read", rdma::Access::remote_write}},
      "Server: register the memory without this right");
}

}  // namespace

int main(int argc, char** argv) {
  return lab::run(argc, argv,
                  {.name = "hello",
                   .idea = "The smallest whole flow: connect, a capability, one WRITE, one READ",
                   .size = 64,
                   .least = kGreeting.size(),
                   .most = kMost,
                   .without = {"--iters"},
                   .more = add_options},
                  server, client);
}
