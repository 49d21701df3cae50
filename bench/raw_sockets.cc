// What the kernel's own sockets do on 127.0.0.1: the limits that the UDP wire is judged against.
//
//   raw_sockets tcp-stream     a TCP stream, 64 KiB writes           MB/s
//   raw_sockets udp-stream     UDP, batches of 15 × 4,096 B (GSO, GRO)  MB/s received
//   raw_sockets udp-pingpong   UDP, 64 B, both ends spinning          µs, half a round trip
//
// Each forks its peer, runs for about a second, and prints one number.

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr std::size_t kPiece = 64 * 1024;
constexpr int kSegment = 4096;
constexpr std::size_t kBatch = std::size_t{15} * kSegment;
constexpr auto kDuration = 1s;

[[noreturn]] void fail(std::string_view what) {
  fmt::print(stderr, "raw_sockets: {}: {}\n", what, std::strerror(errno));
  std::exit(1);
}

void require(bool ok, std::string_view what) {
  if (!ok) fail(what);
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A socket bound to a free port of 127.0.0.1.
struct Bound {
  explicit Bound(int type) : fd{socket(AF_INET, type | SOCK_CLOEXEC, 0)} {
    require(fd >= 0, "socket");
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    require(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "bind");
    socklen_t size = sizeof address;
    getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  }
  void connect_to(const Bound& peer) const {
    require(connect(fd, reinterpret_cast<const sockaddr*>(&peer.address), sizeof address) == 0,
            "connect");
  }
  int fd;
  sockaddr_in address{};
};

/// Runs `child` in a forked process and ends it with the returned object.
struct Child {
  explicit Child(const std::function<void()>& child) : pid{fork()} {
    require(pid >= 0, "fork");
    if (pid == 0) {
      child();
      _exit(0);
    }
  }
  ~Child() {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  pid_t pid;
};

double tcp_stream() {
  const Bound listener{SOCK_STREAM};
  require(listen(listener.fd, 1) == 0, "listen");
  const Child sender{[&] {
    const Bound out{SOCK_STREAM};
    out.connect_to(listener);
    const std::vector<char> piece(kPiece, 1);
    while (send(out.fd, piece.data(), piece.size(), MSG_NOSIGNAL) > 0) {
    }
  }};
  const int in = accept(listener.fd, nullptr, nullptr);
  require(in >= 0, "accept");
  std::vector<char> buffer(4 * kPiece);
  std::uint64_t bytes = 0;
  const auto start = Clock::now();
  while (Clock::now() - start < kDuration) {
    const auto n = recv(in, buffer.data(), buffer.size(), 0);
    require(n > 0, "recv");
    bytes += static_cast<std::uint64_t>(n);
  }
  return static_cast<double>(bytes) / seconds_since(start) / 1e6;
}

/// The sender keeps at most a few batches unacknowledged, as a transport does that loses nothing.
double udp_stream() {
  constexpr int kInFlight = 4;
  const Bound a{SOCK_DGRAM};
  const Bound b{SOCK_DGRAM};
  const int on = 1;
  require(setsockopt(b.fd, IPPROTO_UDP, UDP_GRO, &on, sizeof on) == 0, "UDP_GRO");
  a.connect_to(b);
  b.connect_to(a);
  const Child sender{[&] {
    require(setsockopt(a.fd, IPPROTO_UDP, UDP_SEGMENT, &kSegment, sizeof kSegment) == 0,
            "UDP_SEGMENT");
    const std::vector<char> batch(kBatch, 1);
    for (int credits = kInFlight;; ++credits) {
      while (credits > 0 && send(a.fd, batch.data(), batch.size(), 0) > 0) --credits;
      char credit = 0;
      require(recv(a.fd, &credit, 1, 0) == 1, "recv of a credit");
    }
  }};
  std::vector<char> buffer(kPiece);
  std::uint64_t bytes = 0;
  std::uint64_t credited = 0;
  const auto start = Clock::now();
  while (Clock::now() - start < kDuration) {
    const auto n = recv(b.fd, buffer.data(), buffer.size(), 0);
    require(n > 0, "recv");
    bytes += static_cast<std::uint64_t>(n);
    while (bytes - credited >= kBatch) {
      credited += kBatch;
      require(send(b.fd, "c", 1, 0) == 1, "send of a credit");
    }
  }
  return static_cast<double>(bytes) / seconds_since(start) / 1e6;
}

void spin_receive(int fd, char* buffer, std::size_t size) {
  while (recv(fd, buffer, size, MSG_DONTWAIT) < 0) {
    if (errno != EAGAIN) fail("recv");
  }
}

double udp_pingpong() {
  constexpr std::size_t kSize = 64;
  constexpr int kRounds = 20'000;
  const Bound a{SOCK_DGRAM};
  const Bound b{SOCK_DGRAM};
  a.connect_to(b);
  b.connect_to(a);
  const Child echo{[&] {
    char message[kSize] = {};
    for (;;) {
      spin_receive(b.fd, message, kSize);
      send(b.fd, message, kSize, 0);
    }
  }};
  char message[kSize] = {};
  std::vector<double> half_round_trips;
  half_round_trips.reserve(kRounds);
  for (int i = 0; i < kRounds; ++i) {
    const auto start = Clock::now();
    require(send(a.fd, message, kSize, 0) == kSize, "send");
    spin_receive(a.fd, message, kSize);
    half_round_trips.push_back(seconds_since(start) * 1e6 / 2);
  }
  std::nth_element(half_round_trips.begin(), half_round_trips.begin() + kRounds / 2,
                   half_round_trips.end());
  return half_round_trips[kRounds / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc == 2 ? argv[1] : "";
  if (what == "tcp-stream") {
    fmt::print("{:.0f}\n", tcp_stream());
  } else if (what == "udp-stream") {
    fmt::print("{:.0f}\n", udp_stream());
  } else if (what == "udp-pingpong") {
    fmt::print("{:.2f}\n", udp_pingpong());
  } else {
    fmt::print(stderr, "usage: raw_sockets tcp-stream | udp-stream | udp-pingpong\n");
    return 2;
  }
}
