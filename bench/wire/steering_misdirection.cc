// How many frames reach the wrong process of eight behind one address: by the kernel's hash,
// by the steering program, and while the program is stale because one of them was killed.
//
// Run: build/bench/steering_misdirection

#include <linux/filter.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "system/monotonic_now.h"
#include "wire/udp/udp_socket.h"
#include "wire/udp/udp_wire.h"

namespace {

using namespace verbena;
using namespace verbena::wire;

constexpr std::size_t kMembers = 8;
constexpr std::size_t kFlows = 64;
constexpr std::size_t kFramesPerFlow = 100;
constexpr std::size_t kFrameSize = 256;
constexpr std::size_t kUnnoticed = 448;  // frames between the death and the first reaction
const IpAddress kAddress = IpAddress::v4({127, 7, 200, 1});
const IpAddress kSender = IpAddress::v4({127, 7, 200, 2});

struct Count final : DatagramSink {
  void datagram(const packet::Datagram&) override { ++frames; }
  void management(const packet::Datagram&) override { ++frames; }
  std::size_t frames = 0;
};

struct Member final : registry::Visitors {
  explicit Member(const IpAddress& address)
      : memory(UdpWire::kBufferBytes + registry::Registry::kMessageBytes) {
    const std::span<std::uint8_t> bytes = memory;
    auto joined = registry::Registry::join(bytes.subspan(UdpWire::kBufferBytes));
    if (!joined) fail(joined.error());
    registry = std::move(joined).value();
    auto created = UdpWire::create(*registry, bytes.first(UdpWire::kBufferBytes));
    if (!created) fail(created.error());
    wire = std::move(created).value();
    if (auto opened = wire->open_address({address, 0}); !opened) fail(opened.error());
  }
  void message(const registry::PeerMessage& message) override { wire->message(message, sink); }
  registry::Account account(std::uint32_t) override { return {}; }
  void abandon() const {
    wire->abandon();
    registry->abandon();
  }
  [[noreturn]] static void fail(const Error& error) {
    std::fprintf(stderr, "%s\n", error.message.c_str());
    std::exit(1);
  }
  void turn() {
    registry->serve(*this);
    wire->serve_control(sink);
    while (wire->receive(sink) > 0) {
    }
  }
  std::vector<std::uint8_t> memory;
  Count sink;
  std::unique_ptr<registry::Registry> registry;
  std::unique_ptr<UdpWire> wire;
};

using Members = std::vector<std::unique_ptr<Member>>;

void turn(Members& members, int times) {
  for (int i = 0; i < times; ++i) {
    for (auto& m : members) m->turn();
  }
}

std::uint64_t handed_over(const Members& members) {
  std::uint64_t sum = 0;
  for (const auto& m : members) sum += m->wire->counters().handed_over;
  return sum;
}

std::uint64_t received(const Members& members) {
  std::uint64_t sum = 0;
  for (const auto& m : members) sum += m->sink.frames;
  return sum;
}

void send(Member& from, std::uint32_t slot, std::uint16_t port) {
  const packet::Flow flow{.source = kSender, .destination = kAddress, .source_port = port};
  const auto room = from.wire->reserve(flow, Qpn{slot << Qpn::kIndexBits}, kFrameSize);
  if (room.empty()) return;
  std::fill(room.begin(), room.end(), std::uint8_t{4});
  store_be24(&room[5], slot << Qpn::kIndexBits);
  from.wire->commit();
}

std::vector<std::uint16_t> ports_of(Member& m) {
  std::vector<std::uint16_t> ports;
  for (std::uint32_t i = 0; i < kFlows; ++i) ports.push_back(*m.wire->source_port(kSender, Qpn{i}));
  return ports;
}

/// Sockets without a program. The member of a flow is flow modulo 8.
double misdirected_by_hash() {
  std::vector<Fd> sockets;
  for (std::size_t i = 0; i < kMembers; ++i) {
    auto opened = open_receive_socket({kAddress, 0});
    if (!opened) Member::fail(opened.error());
    sockets.push_back(std::move(opened).value());
  }
  std::size_t wrong = 0;
  std::size_t total = 0;
  for (std::size_t flow = 0; flow < kFlows; ++flow) {
    const Fd sender{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    const SocketAddress to{kAddress, packet::kRocePort, 0};
    const auto owner = static_cast<std::uint8_t>(flow % kMembers);
    for (std::size_t i = 0; i < kFramesPerFlow; ++i) {
      (void)::sendto(sender.get(), &owner, 1, 0, to.get(), to.size());
    }
    for (std::size_t s = 0; s < kMembers; ++s) {
      std::uint8_t got = 0;
      while (::recv(sockets[s].get(), &got, 1, MSG_DONTWAIT) == 1) {
        ++total;
        wrong += got != s;
      }
    }
  }
  return 100.0 * static_cast<double>(wrong) / static_cast<double>(total);
}

/// A member in a process of its own, in the middle of the kernel's array.
pid_t start_victim(Members& members) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) std::exit(1);
  const pid_t pid = ::fork();
  if (pid == 0) {
    for (auto& m : members) m->abandon();
    Member own{kAddress};
    (void)!::write(ends[1], "", 1);
    for (;;) {
      std::array<pollfd, 2> fds{pollfd{own.wire->descriptors().data, POLLIN, 0},
                                pollfd{own.registry->fd(), POLLIN, 0}};
      ::poll(fds.data(), fds.size(), -1);
      own.turn();
    }
  }
  pollfd ready{ends[0], POLLIN, 0};
  while (::poll(&ready, 1, 1) == 0) turn(members, 1);
  ::close(ends[0]);
  ::close(ends[1]);
  return pid;
}

}  // namespace

int main() {
  std::printf("frames that reach the wrong one of %zu processes\n", kMembers);
  std::printf("  by the kernel's hash         %5.1f %%\n", misdirected_by_hash());

  Member sender{kSender};
  const auto ports = ports_of(sender);
  Members members;
  while (members.size() < kMembers / 2) members.push_back(std::make_unique<Member>(kAddress));
  const pid_t victim = start_victim(members);
  while (members.size() < kMembers - 1) members.push_back(std::make_unique<Member>(kAddress));
  turn(members, 100);

  for (std::size_t flow = 0; flow < kFlows; ++flow) {
    for (std::size_t i = 0; i < kFramesPerFlow; ++i) {
      send(sender, members[flow % members.size()]->registry->slot(), ports[flow]);
    }
    sender.wire->flush();
    turn(members, 1);
  }
  turn(members, 10);
  std::printf(
      "  by the steering program      %5.1f %%  (%llu of %llu)\n",
      100.0 * static_cast<double>(handed_over(members)) / static_cast<double>(received(members)),
      static_cast<unsigned long long>(handed_over(members)),
      static_cast<unsigned long long>(received(members)));

  ::kill(victim, SIGKILL);
  ::waitpid(victim, nullptr, 0);
  const auto killed = monotonic_now();
  const auto before = handed_over(members);
  const auto received_before = received(members);
  std::size_t sent = 0;
  std::size_t last_wrong = 0;
  auto last_wrong_at = killed;
  for (std::size_t i = 0; i < 20'000; ++i) {
    const auto seen = handed_over(members);
    send(sender, members[i % members.size()]->registry->slot(), ports[i % kFlows]);
    sender.wire->flush();
    ++sent;
    // The first frames are under way before anybody looks up.
    if (i >= kUnnoticed) turn(members, 1);
    if (handed_over(members) != seen) {
      last_wrong = sent;
      last_wrong_at = monotonic_now();
    }
  }
  turn(members, 10);
  const std::chrono::duration<double, std::milli> stale = last_wrong_at - killed;
  std::printf(
      "after one was killed, %zu frames to the other seven, %zu of them before "
      "anybody reacts\n",
      sent, kUnnoticed);
  std::printf("  handed over                  %5llu    (last: frame %zu, %.2f ms after the kill)\n",
              static_cast<unsigned long long>(handed_over(members) - before), last_wrong,
              stale.count());
  std::printf("  lost                         %5llu\n",
              static_cast<unsigned long long>(sent - (received(members) - received_before)));
}
