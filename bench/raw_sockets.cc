// What the kernel's own sockets do on 127.0.0.1: the limits that the UDP wire is judged against.
//
//   raw_sockets tcp-stream     a TCP stream, 64 KiB writes           MB/s
//   raw_sockets udp-stream     UDP, batches of 15 × 4,096 B (GSO, GRO)  MB/s received
//   raw_sockets udp-pingpong   UDP, 64 B, both ends spinning          µs, half a round trip
//   raw_sockets wire-pingpong  the same with the calls that our wire makes, and nothing else;
//                              a second argument leaves one thing out: batch, copy or class
//
// Each forks its peer, runs for about a second, and prints one number.

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <signal.h>
#include <sys/mman.h>
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

/// Half a round trip in µs, the median. `exchange` sends to the other end and spins until its
/// answer is there, `answer` the other way round.
double half_round_trip(const std::function<void()>& exchange, const std::function<void()>& answer) {
  constexpr int kRounds = 20'000;
  const Child echo{[&] {
    for (;;) answer();
  }};
  std::vector<double> times;
  times.reserve(kRounds);
  for (int i = 0; i < kRounds; ++i) {
    const auto start = Clock::now();
    exchange();
    times.push_back(seconds_since(start) * 1e6 / 2);
  }
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  return times[kRounds / 2];
}

void spin_receive(int fd, char* buffer, std::size_t size) {
  while (recv(fd, buffer, size, MSG_DONTWAIT) < 0) {
    if (errno != EAGAIN) fail("recv");
  }
}

double udp_pingpong() {
  constexpr std::size_t kSize = 64;
  const Bound a{SOCK_DGRAM};
  const Bound b{SOCK_DGRAM};
  a.connect_to(b);
  b.connect_to(a);
  char message[kSize] = {};
  const auto say = [&](const Bound& end) {
    require(send(end.fd, message, kSize, 0) == kSize, "send");
  };
  return half_round_trip(
      [&] {
        say(a);
        spin_receive(a.fd, message, kSize);
      },
      [&] {
        spin_receive(b.fd, message, kSize);
        say(b);
      });
}

/// An end that makes the calls of Verbena's wire: a WRITE of 64 B that was posted inline and the
/// ACK of the one before leave as one batch, from a socket of their own; what comes is taken with
/// its traffic class and hop limit, and copied into the program's memory by a call (decision 004).
class WireEnd {
 public:
  struct With {
    bool batch = true;
    bool copy = true;
    bool traffic_class = true;  // and hop limit
  };
  explicit WireEnd(With with) : with_{with} {
    const int on = 1;
    const int asked = with_.traffic_class ? 1 : 0;
    require(setsockopt(in_.fd, SOL_UDP, UDP_GRO, &on, sizeof on) == 0, "UDP_GRO");
    require(setsockopt(in_.fd, SOL_IP, IP_RECVTTL, &asked, sizeof asked) == 0, "IP_RECVTTL");
    require(setsockopt(in_.fd, SOL_IP, IP_RECVTOS, &asked, sizeof asked) == 0, "IP_RECVTOS");
    require(frames_ >= 0 && ftruncate(frames_, kWrite) == 0, "memfd_create");
  }
  void send_to(WireEnd& peer) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(std::uint16_t))] = {};
    iovec batch{batch_, with_.batch ? sizeof batch_ : kWrite};
    mmsghdr message{};
    message.msg_hdr.msg_name = &peer.in_.address;
    message.msg_hdr.msg_namelen = sizeof peer.in_.address;
    message.msg_hdr.msg_iov = &batch;
    message.msg_hdr.msg_iovlen = 1;
    if (with_.batch) {
      message.msg_hdr.msg_control = control;
      message.msg_hdr.msg_controllen = sizeof control;
      cmsghdr* const segment = CMSG_FIRSTHDR(&message.msg_hdr);
      *segment = {CMSG_LEN(sizeof(std::uint16_t)), SOL_UDP, UDP_SEGMENT};
      constexpr std::uint16_t size = kWrite;
      std::memcpy(CMSG_DATA(segment), &size, sizeof size);
    }
    require(sendmmsg(out_.fd, &message, 1, 0) == 1, "sendmmsg");
  }
  void spin_receive() {
    for (ssize_t got = -1; got < 0;) {
      sockaddr_in from{};
      alignas(cmsghdr) char control[128];
      iovec room{room_, sizeof room_};
      msghdr message{.msg_name = &from,
                     .msg_namelen = sizeof from,
                     .msg_iov = &room,
                     .msg_iovlen = 1,
                     .msg_control = control,
                     .msg_controllen = sizeof control,
                     .msg_flags = 0};
      got = recvmsg(in_.fd, &message, MSG_DONTWAIT);
      if (got < 0 && errno != EAGAIN) fail("recvmsg");
    }
    if (!with_.copy) return;
    require(pread(frames_, program_, sizeof program_, 0) == sizeof program_, "pread");
  }

 private:
  static constexpr std::size_t kWrite = 64 + 12 + 16 + 4;  // payload, BTH, RETH, ICRC
  static constexpr std::size_t kAck = 12 + 4 + 4;          // BTH, AETH, ICRC

  With with_;
  Bound in_{SOCK_DGRAM};
  Bound out_{SOCK_DGRAM};
  int frames_ = memfd_create("frames", MFD_CLOEXEC);
  char program_[64] = {};
  char batch_[kWrite + kAck] = {};
  char room_[2048] = {};
};

double wire_pingpong(WireEnd::With with) {
  WireEnd a{with};
  WireEnd b{with};
  return half_round_trip(
      [&] {
        a.send_to(b);
        a.spin_receive();
      },
      [&] {
        b.spin_receive();
        b.send_to(a);
      });
}

int usage() {
  fmt::print(stderr,
             "usage: raw_sockets tcp-stream | udp-stream | udp-pingpong | "
             "wire-pingpong [batch | copy | class]\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  alarm(30);  // a datagram that is lost, or a peer that fails, would be waited for
  const std::string_view what = argc >= 2 ? argv[1] : "";
  const std::string_view without = argc == 3 ? argv[2] : "";
  const WireEnd::With with{
      .batch = without != "batch", .copy = without != "copy", .traffic_class = without != "class"};
  const bool known = without.empty() || !with.batch || !with.copy || !with.traffic_class;
  if (what == "wire-pingpong" && argc <= 3 && known) {
    fmt::print("{:.2f}\n", wire_pingpong(with));
  } else if (argc != 2) {
    return usage();
  } else if (what == "tcp-stream") {
    fmt::print("{:.0f}\n", tcp_stream());
  } else if (what == "udp-stream") {
    fmt::print("{:.0f}\n", udp_stream());
  } else if (what == "udp-pingpong") {
    fmt::print("{:.2f}\n", udp_pingpong());
  } else {
    return usage();
  }
}
