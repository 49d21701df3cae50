// What GRO does to steering: two queue pairs of two processes send alternately over a veth
// pair, from one source port or from one each. GRO merges neighbours of one flow, steering
// sees the first of them only.
//
// Run: build/bench/source_ports        (as root, or where users may unshare namespaces)

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/numbers.h"
#include "wire/udp/receiver.h"
#include "wire/udp/steering.h"
#include "wire/udp/udp_socket.h"

namespace {

using namespace verbena;
using namespace verbena::wire;

constexpr std::size_t kProcesses = 2;
constexpr int kRounds = 2000;
constexpr unsigned kBurst = 32;
const IpAddress kNear = IpAddress::v4({10, 77, 0, 1});
const IpAddress kFar = IpAddress::v4({10, 77, 0, 2});

void shell(const std::string& command) {
  if (std::system(command.c_str()) != 0) {
    std::fprintf(stderr, "failed: %s\n", command.c_str());
    std::exit(77);
  }
}

using Frame = std::array<std::uint8_t, 256>;

Frame frame_to_slot(std::uint32_t slot) {
  Frame frame{};
  frame[0] = 4;
  store_be24(&frame[5], slot << Qpn::kIndexBits);
  return frame;
}

/// Alternates between the slots 1 and 2; ports[i] is where frames of slot i + 1 come from.
void send_all(const std::array<std::uint16_t, kProcesses>& ports) {
  std::vector<Fd> sockets;
  for (std::size_t i = 0; i < kProcesses; ++i) {
    if (i > 0 && ports[i] == ports[0]) break;
    auto opened = open_send_socket({kNear, 0}, ports[i]);
    if (!opened) {
      std::fprintf(stderr, "%s\n", opened.error().message.c_str());
      std::exit(1);
    }
    sockets.push_back(std::move(opened).value());
  }
  const SocketAddress to{kFar, packet::kRocePort, 0};
  const std::array<Frame, kProcesses> frames{frame_to_slot(1), frame_to_slot(2)};
  for (int round = 0; round < kRounds; ++round) {
    for (unsigned i = 0; i < kBurst; ++i) {
      const auto& frame = frames[i % kProcesses];
      const int fd = sockets[i % sockets.size()].get();
      (void)::sendto(fd, frame.data(), frame.size(), 0, to.get(), to.size());
    }
    ::poll(nullptr, 0, 1);  // let the receiver keep up: drops are not what is measured
  }
}

struct Tally final : TrainSink {
  void train(const Train& t) override {
    ++trains;
    for (std::size_t at = 0; at < t.whole.bytes.size(); at += t.segment) {
      const auto bytes = t.whole.bytes.subspan(at);
      if (bytes.size() < 8) return;
      ++frames;
      wrong += Qpn{load_be24(&bytes[5])}.slot() != slot;
    }
  }
  std::uint32_t slot = 0;
  std::size_t frames = 0;
  std::size_t wrong = 0;
  std::size_t trains = 0;
};

void measure(const char* what, const std::array<std::uint16_t, kProcesses>& ports, int near_ns) {
  std::vector<ReceiveSocket> sockets;
  std::vector<registry::GroupMember> rules;
  for (std::uint32_t i = 0; i < kProcesses; ++i) {
    auto opened = open_receive_socket({kFar, 0});
    if (!opened) {
      std::fprintf(stderr, "%s\n", opened.error().message.c_str());
      std::exit(1);
    }
    sockets.push_back({std::move(opened).value(), {kFar, 0}, 0});
    rules.push_back({i + 1, static_cast<std::uint16_t>(i)});
  }
  if (!attach_steering(sockets[0].fd.get(), rules)) std::exit(1);

  const pid_t sender = ::fork();
  if (sender == 0) {
    if (::setns(near_ns, CLONE_NEWNET) != 0) std::_Exit(1);
    send_all(ports);
    std::_Exit(0);
  }
  std::vector<std::uint8_t> memory(Receiver::kBuffers * Receiver::kBufferBytes);
  WireCounters counters;
  Receiver receiver{memory, counters};
  std::array<Tally, kProcesses> tallies;
  bool sending = true;
  for (;;) {
    std::size_t got = 0;
    for (std::uint32_t i = 0; i < kProcesses; ++i) {
      tallies[i].slot = i + 1;
      got += receiver.receive(sockets[i], tallies[i]);
    }
    if (got > 0) continue;
    if (!sending) break;
    std::array<pollfd, kProcesses> fds{pollfd{sockets[0].fd.get(), POLLIN, 0},
                                       pollfd{sockets[1].fd.get(), POLLIN, 0}};
    ::poll(fds.data(), fds.size(), 20);
    sending = ::waitpid(sender, nullptr, WNOHANG) == 0;
  }
  const auto frames = tallies[0].frames + tallies[1].frames;
  const auto wrong = tallies[0].wrong + tallies[1].wrong;
  const auto trains = tallies[0].trains + tallies[1].trains;
  std::printf("%-22s %8zu %12.1f %14.1f %%\n", what, frames,
              static_cast<double>(frames) / static_cast<double>(trains),
              100.0 * static_cast<double>(wrong) / static_cast<double>(frames));
}

}  // namespace

int main() {
  const bool root = ::geteuid() == 0;
  if (::unshare(CLONE_NEWNET | CLONE_NEWNS | (root ? 0 : CLONE_NEWUSER)) != 0) {
    std::fprintf(stderr, "skipped: this machine lends no network namespace\n");
    return 77;
  }
  const Fd near_ns{::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)};
  const auto pid = std::to_string(::getpid());
  shell("ip link set lo up && ip link add near type veth peer name far");
  shell("ip addr add 10.77.0.1/24 dev near && ip link set near up");
  // veth runs GRO only on what comes from a device without TSO.
  shell("ethtool -K near tso off gso off");
  // The far end moves to a namespace of its own, which this process enters.
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0 || ::unshare(CLONE_NEWNET) != 0) return 1;
  const pid_t mover = ::fork();
  if (mover == 0) {
    if (::setns(near_ns.get(), CLONE_NEWNET) != 0) std::_Exit(1);
    shell("ip link set far netns " + pid);
    std::_Exit(0);
  }
  ::waitpid(mover, nullptr, 0);
  shell("ip link set lo up && ip addr add 10.77.0.2/24 dev far && ip link set far up");
  shell("ethtool -K far gro on");
  // As a NIC that coalesces interrupts: packets wait up to 200 us for others to merge with.
  shell("mount --make-rprivate / && mount -t sysfs none /sys");
  shell("echo 200000 > /sys/class/net/far/gro_flush_timeout");

  std::printf("%-22s %8s %12s %16s\n", "source ports", "frames", "GRO merges", "misdirected");
  measure("4791 for both", {4791, 4791}, near_ns.get());
  measure("one per queue pair", {0xC123, 0xD456}, near_ns.get());
}
