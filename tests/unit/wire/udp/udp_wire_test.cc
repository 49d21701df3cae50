// Frames from one wire to another over loopback.

#include "wire/udp/udp_wire.h"

#include <gmock/gmock.h>
#include <net/if.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/station.h"
#include "wire/observer.h"

namespace verbena::wire::test {
namespace {

class RoundTrip : public testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] static IpAddress address(std::uint8_t last) {
    return GetParam() ? loopback_v6() : loopback(last);
  }
  const Fd turn_ = GetParam() ? hold_loopback_v6() : Fd{};
};

TEST_P(RoundTrip, CarriesABatchOf64) {
  Station a{address(1)}, b{address(2)};
  settle({&a, &b});
  const auto flow = a.flow_to(b.address);
  for (std::uint8_t i = 0; i < 64; ++i) ASSERT_TRUE(a.send(flow, frame_to(b.qpn(), 1000, i)));
  a.flush();
  ASSERT_TRUE(run_until({&a, &b}, [&] { return b.sink.frames.size() == 64; }));

  EXPECT_EQ(a.counters().frames_sent, 64u);
  EXPECT_EQ(b.counters().frames_received, 64u);
  EXPECT_EQ(b.counters().icrc_errors, 0u);
  EXPECT_TRUE(b.sink.lies_in_buffers);
  for (std::uint8_t i = 0; i < 64; ++i) {
    EXPECT_EQ(b.sink.frames[i].frame, frame_to(b.qpn(), 1000, i)) << "frame " << int{i};
    EXPECT_EQ(b.sink.frames[i].headers.source, a.address);
    EXPECT_EQ(b.sink.frames[i].headers.destination, b.address);
    EXPECT_EQ(b.sink.frames[i].headers.source_port, flow.source_port);
  }
}

TEST_P(RoundTrip, CarriesMixedSizesAndDestinationsInOrder) {
  Station a{address(1)}, b{address(2)};
  settle({&a, &b});
  const auto flow = a.flow_to(b.address);
  const std::vector<std::size_t> sizes{1036, 1036, 16, 16, 4112, 4112, 4112, 20, 12, 1036, 12};
  std::uint8_t seed = 0;
  for (const auto size : sizes) {
    // Every third to another queue pair.
    ASSERT_TRUE(a.send(flow, frame_to(b.qpn(seed % 3), size, seed)));
    ++seed;
  }
  a.flush();
  ASSERT_TRUE(run_until({&a, &b}, [&] { return b.sink.frames.size() == sizes.size(); }));
  std::uint8_t number = 0;
  for (const auto size : sizes) {
    EXPECT_EQ(b.sink.frames[number].frame, frame_to(b.qpn(number % 3), size, number))
        << "frame " << int{number};
    ++number;
  }
  EXPECT_EQ(b.counters().icrc_errors, 0u);
}

TEST_P(RoundTrip, CarriesTrafficClassAndHopLimit) {
  Station a{address(1)}, b{address(2)};
  settle({&a, &b});
  auto flow = a.flow_to(b.address);
  flow.traffic_class = 0x68;
  flow.hop_limit = 7;
  ASSERT_TRUE(a.send(flow, frame_to(b.qpn(), 100, 0)));
  ASSERT_TRUE(a.send(flow, frame_to(b.qpn(), 100, 1)));
  a.flush();
  ASSERT_TRUE(run_until({&a, &b}, [&] { return b.sink.frames.size() == 2; }));
  for (const auto& r : b.sink.frames) {
    EXPECT_EQ(r.headers.traffic_class, 0x68);
    EXPECT_EQ(r.headers.hop_limit, 7);
  }
}

INSTANTIATE_TEST_SUITE_P(Family, RoundTrip, testing::Values(false, true),
                         [](const auto& p) { return p.param ? "IPv6" : "IPv4"; });

TEST(UdpWire, SendsMoreThanItsBufferHolds) {
  Station a{loopback(1)}, b{loopback(2)};
  settle({&a, &b});
  const auto flow = a.flow_to(b.address);
  constexpr std::size_t kFrames = 2000;  // 8 MB through an arena of 3 MB
  std::size_t sent = 0;
  ASSERT_TRUE(run_until({&a, &b}, [&] {
    for (int i = 0; i < 40 && sent < kFrames; ++i) {
      if (!a.send(flow, frame_to(b.qpn(), 4112, static_cast<std::uint8_t>(sent)))) break;
      ++sent;
    }
    a.flush();
    return b.sink.frames.size() + b.counters().socket_drops * 64 >= kFrames;
  }));
  EXPECT_EQ(a.counters().frames_sent, kFrames);
  EXPECT_EQ(b.counters().icrc_errors, 0u);
}

TEST(UdpWire, DropsAndCountsDamagedFrames) {
  Station b{loopback(2)};
  const RawSender sender{loopback(3)};
  auto damaged = sender.sealed(b.address, frame_to(b.qpn(), 100, 1));
  damaged[50] ^= 1;
  sender.send(b.address, damaged);
  sender.send(b.address, sender.sealed(b.address, frame_to(b.qpn(), 100, 2)));
  ASSERT_TRUE(run_until({&b}, [&] { return !b.sink.frames.empty(); }));
  EXPECT_EQ(b.sink.frames[0].frame, frame_to(b.qpn(), 100, 2));
  EXPECT_EQ(b.counters().icrc_errors, 1u);
}

/// The reasons, with the bytes of each frame.
struct Losses final : Observer {
  void dropped(std::string_view reason, const packet::Datagram& d) override {
    all.emplace_back(reason, d.bytes.size());
  }
  void struck(Fault, std::span<const std::uint8_t>) override {}

  std::vector<std::pair<std::string, std::size_t>> all;
};

TEST(UdpWire, TellsOfEachFrameThatItDrops) {
  Station b{loopback(2)};
  Losses losses;
  b.wire->observe(&losses);
  const RawSender sender{loopback(3)};
  auto damaged = sender.sealed(b.address, frame_to(b.qpn(), 100, 1));
  damaged[50] ^= 1;
  sender.send(b.address, damaged);
  sender.send(b.address, std::vector<std::uint8_t>(15, 0x04));
  sender.send(b.address, sender.sealed(b.address, frame_to(Qpn{0x1234}, 100, 2)));  // slot 0
  ASSERT_TRUE(run_until({&b}, [&] { return losses.all.size() == 3; }));
  EXPECT_THAT(losses.all, testing::ElementsAre(testing::Pair("icrc_errors", 104u),
                                               testing::Pair("malformed", 15u),
                                               testing::Pair("handover_drops", 104u)));
  b.wire->observe(nullptr);
}

TEST(UdpWire, AcceptsAForeignIdentification) {
  Station b{loopback(2)};
  const RawSender sender{loopback(3)};
  sender.send(b.address, sender.sealed(b.address, frame_to(b.qpn(), 100, 2), 0xbeef));
  ASSERT_TRUE(run_until({&b}, [&] { return !b.sink.frames.empty(); }));
  EXPECT_EQ(b.counters().icrc_errors, 0u);
}

TEST(UdpWire, DropsAndCountsShortFrames) {
  Station b{loopback(2)};
  const RawSender sender{loopback(3)};
  sender.send(b.address, std::vector<std::uint8_t>(15, 0x04));
  sender.send(b.address, std::vector<std::uint8_t>(1, 0xfe));
  ASSERT_TRUE(run_until({&b}, [&] { return b.counters().malformed == 2; }));
  EXPECT_TRUE(b.sink.frames.empty());
}

TEST(UdpWire, KeepsFramesToManagementAndMulticastQueuePairs) {
  Station b{loopback(2)};
  const RawSender sender{loopback(3)};
  for (const auto qpn : {1u, 0xff'ffffu}) {
    sender.send(b.address, sender.sealed(b.address, frame_to(Qpn{qpn}, 100, 2)));
  }
  ASSERT_TRUE(run_until({&b}, [&] { return b.sink.frames.size() == 2; }));
}

TEST(UdpWire, CountsFramesOfNobody) {
  Station b{loopback(2)};
  const RawSender sender{loopback(3)};
  sender.send(b.address, sender.sealed(b.address, frame_to(Qpn{0x1234}, 100, 2)));  // slot 0
  ASSERT_TRUE(run_until({&b}, [&] { return b.counters().handover_drops == 1; }));
  EXPECT_TRUE(b.sink.frames.empty());
}

TEST(UdpWire, CountsSendsFromAPortThatIsNotItsOwn) {
  Station a{loopback(1)};
  ASSERT_TRUE(a.send({.source = a.address, .destination = a.address, .source_port = 9},
                     frame_to(a.qpn(), 100, 0)));
  EXPECT_EQ(a.counters().send_errors, 1u);
  EXPECT_NE(a.wire->last_send_error().find("no such source port"), std::string::npos);
}

TEST(UdpWire, OpensAnAddressTwiceAsOnce) {
  Station a{loopback(1)};
  EXPECT_TRUE(a.wire->open_address({a.address, 0}).ok());
  EXPECT_TRUE(a.send(a.flow_to(a.address), frame_to(a.qpn(), 100, 0)));
  a.flush();
  EXPECT_TRUE(run_until({&a}, [&] { return a.sink.frames.size() == 1; }));
}

TEST(UdpWire, ReceivesAtSeveralAddresses) {
  Station a{loopback(1)};
  ASSERT_TRUE(a.wire->open_address({loopback(9), 0}).ok());
  const auto flow = a.flow_to(a.address);
  auto other = flow;
  other.destination = loopback(9);
  EXPECT_TRUE(a.send(flow, frame_to(a.qpn(), 100, 0)));
  EXPECT_TRUE(a.send(other, frame_to(a.qpn(), 100, 0)));
  a.flush();
  ASSERT_TRUE(run_until({&a}, [&] { return a.sink.frames.size() == 2; }));
}

TEST(UdpWire, SaysWhoMayHoldAPortThatIsInUse) {
  // Without SO_REUSEPORT, as the kernel's rxe holds it.
  const Fd holder{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  const SocketAddress address{loopback(5), packet::kRocePort, 0};
  ASSERT_EQ(::bind(holder.get(), address.get(), address.size()), 0);
  Station a{loopback(1)};
  const auto opened = a.wire->open_address({loopback(5), 0});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, EADDRINUSE);
  EXPECT_NE(opened.error().message.find("rxe"), std::string::npos) << opened.error().message;
}

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator{"/proc/self/fd"},
                       std::filesystem::directory_iterator{});
}

TEST(UdpWire, AbandonedClosesEveryDescriptor) {
  const auto before = open_descriptors();
  Station a{loopback(1)};
  Station b{loopback(1)};
  (void)a.flow_to(b.address);
  settle({&a, &b});
  const pid_t child = ::fork();
  if (child == 0) {
    a.abandon();
    b.abandon();
    ::_exit(open_descriptors() == before ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(UdpWire, RefusesTooLittleMemory) {
  Station a{loopback(1)};
  std::vector<std::uint8_t> memory(UdpWire::kBufferBytes - 1);
  EXPECT_FALSE(UdpWire::create(*a.registry, memory).ok());
}

/// A group of this test process's own.
IpAddress own_group() {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  return IpAddress::v4({239, static_cast<std::uint8_t>(pid >> 16),
                        static_cast<std::uint8_t>(pid >> 8), static_cast<std::uint8_t>(pid)});
}

TEST(Multicast, EveryMemberGetsItsCopyAndOthersNone) {
  Station sender{loopback(1)}, member{loopback(2)}, other{loopback(3)};
  settle({&sender, &member, &other});
  const unsigned lo = ::if_nametoindex("lo");
  const IpAddress group = own_group();
  const Qpn everybody{Qpn::kMask};
  ASSERT_TRUE(sender.wire->join({group, lo}).ok());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(member.wire->join({group, lo}).ok());
  member.wire->leave({group, lo});  // one of two
  const auto flow = sender.flow_to(group);
  const auto send = [&](Qpn qpn, std::uint8_t seed) {
    ASSERT_TRUE(sender.send(flow, frame_to(qpn, 100, seed)));
    sender.flush();
  };
  send(everybody, 1);
  ASSERT_TRUE(run_until({&sender, &member, &other}, [&] {
    return sender.sink.frames.size() == 1 && member.sink.frames.size() == 1;
  }));
  EXPECT_EQ(member.sink.frames[0].frame, frame_to(everybody, 100, 1));
  EXPECT_EQ(member.sink.frames[0].headers.source, sender.address);
  EXPECT_EQ(member.sink.frames[0].headers.destination, group);

  send(member.qpn(), 2);  // a single queue pair's, but sent to all
  ASSERT_TRUE(
      run_until({&sender, &member, &other}, [&] { return member.counters().malformed == 1; }));

  member.wire->leave({group, lo});
  send(everybody, 3);
  ASSERT_TRUE(
      run_until({&sender, &member, &other}, [&] { return sender.sink.frames.size() == 2; }));
  settle({&sender, &member, &other});
  EXPECT_EQ(member.sink.frames.size(), 1u);
  EXPECT_TRUE(other.sink.frames.empty());
}

}  // namespace
}  // namespace verbena::wire::test
