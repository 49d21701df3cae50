// What the kernel's own sockets do on 127.0.0.1, between two processes: the limits that the
// RDMA figures are put beside.
//
//   raw_sockets tcp  SECONDS    a TCP stream, writes of 64 KiB                       -> MB/s
//   raw_sockets udp  SECONDS    UDP_SEGMENT batches of 15 x 4 KiB, UDP_GRO receiver   -> MB/s
//   received raw_sockets ping SECONDS    a UDP ping-pong of 64 B, both ends spinning           ->
//   us one way
//
// Prints one number (MB = 10^6 bytes).

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kSegment = 4096;
constexpr std::size_t kBatch = 15 * kSegment;
constexpr std::size_t kMessage = 64;
constexpr std::size_t kWrite = 65536;

[[noreturn]] void die(std::string_view call) {
  fmt::print(stderr, "raw_sockets: {}: {}\n", call, std::strerror(errno));
  std::exit(1);
}

long checked(long result, std::string_view call) {
  if (result < 0) die(call);
  return result;
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

sockaddr_in loopback() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int bound_socket(int type) {
  const int fd = static_cast<int>(checked(socket(AF_INET, type, 0), "socket"));
  sockaddr_in address = loopback();
  checked(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), "bind");
  return fd;
}

void connect_to(int from, int to) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  checked(getsockname(to, reinterpret_cast<sockaddr*>(&address), &size), "getsockname");
  checked(connect(from, reinterpret_cast<sockaddr*>(&address), size), "connect");
}

/// Runs `body` in a child until it is destroyed.
class Peer {
 public:
  template <typename Body>
  explicit Peer(Body body) : pid_{static_cast<pid_t>(checked(fork(), "fork"))} {
    if (pid_ == 0) {
      body();
      _exit(0);
    }
  }
  ~Peer() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

 private:
  pid_t pid_;
};

/// MB/s that arrive at `fd` in that time.
double receive_rate(int fd, double seconds) {
  std::vector<char> buffer(1u << 18);
  checked(recv(fd, buffer.data(), buffer.size(), 0), "recv");  // the sender is there
  const auto start = Clock::now();
  double bytes = 0;
  while (seconds_since(start) < seconds) {
    bytes += static_cast<double>(checked(recv(fd, buffer.data(), buffer.size(), 0), "recv"));
  }
  return bytes / seconds_since(start) / 1e6;
}

double tcp_stream(double seconds) {
  const int listener = bound_socket(SOCK_STREAM);
  checked(listen(listener, 1), "listen");
  const Peer sender{[&] {
    const int fd = static_cast<int>(checked(socket(AF_INET, SOCK_STREAM, 0), "socket"));
    connect_to(fd, listener);
    const std::vector<char> data(kWrite);
    for (;;) checked(send(fd, data.data(), data.size(), 0), "send");
  }};
  return receive_rate(static_cast<int>(checked(accept(listener, nullptr, nullptr), "accept")),
                      seconds);
}

double udp_stream(double seconds) {
  const int receiver = bound_socket(SOCK_DGRAM);
  const int on = 1;
  checked(setsockopt(receiver, SOL_UDP, UDP_GRO, &on, sizeof on), "UDP_GRO");
  const Peer sender{[&] {
    const int fd = bound_socket(SOCK_DGRAM);
    connect_to(fd, receiver);
    const int segment = kSegment;
    checked(setsockopt(fd, SOL_UDP, UDP_SEGMENT, &segment, sizeof segment), "UDP_SEGMENT");
    const std::vector<char> data(kBatch);
    for (;;) checked(send(fd, data.data(), data.size(), 0), "send");
  }};
  return receive_rate(receiver, seconds);
}

void spin_receive(int fd, std::array<char, kMessage>& message) {
  while (recv(fd, message.data(), message.size(), MSG_DONTWAIT) < 0) {
    if (errno != EAGAIN) die("recv");
  }
}

double udp_ping(double seconds) {
  const int here = bound_socket(SOCK_DGRAM);
  const int there = bound_socket(SOCK_DGRAM);
  connect_to(here, there);
  connect_to(there, here);
  std::array<char, kMessage> message{};
  const Peer echo{[&] {
    for (;;) {
      spin_receive(there, message);
      checked(send(there, message.data(), message.size(), 0), "send");
    }
  }};
  const auto start = Clock::now();
  std::uint64_t rounds = 0;
  for (; seconds_since(start) < seconds; ++rounds) {
    checked(send(here, message.data(), message.size(), 0), "send");
    spin_receive(here, message);
  }
  return seconds_since(start) * 1e6 / static_cast<double>(rounds) / 2;
}

}  // namespace

int main(int argc, char** argv) {
  const std::array<std::pair<std::string_view, double (*)(double)>, 3> kinds{
      {{"tcp", tcp_stream}, {"udp", udp_stream}, {"ping", udp_ping}}};
  for (const auto& [name, measure] : kinds) {
    if (argc == 3 && argv[1] == name) {
      fmt::print("{:.2f}\n", measure(std::strtod(argv[2], nullptr)));
      return 0;
    }
  }
  fmt::print(stderr, "usage: raw_sockets tcp|udp|ping SECONDS\n");
  return 2;
}
