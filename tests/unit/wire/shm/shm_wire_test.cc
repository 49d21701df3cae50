// Frames between processes of one host: which go by rings, what arrives, what is counted, and who
// is woken.

#include "wire/shm/shm_wire.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/child_peer.h"
#include "tests/unit/wire/shm/processes.h"

namespace verbena::wire::test {
namespace {

using shm::Link;

/// With links that are whole at both ends.
struct TwoProcesses : testing::Test {
  void SetUp() override {
    ASSERT_EQ(a.carriage(b), Carriage::carried);
    ASSERT_TRUE(drive([&] { return b.wire->in_use(); }, a, b));
    a.turn();
  }
  Process a{1};
  Process b{2};
};

TEST_F(TwoProcesses, FramesArriveInOrder) {
  const std::vector<std::size_t> sizes{1036, 16, 4112, 12, 500, 512, 513, 60'000, 20};
  std::uint8_t seed = 0;
  for (const auto size : sizes) ASSERT_TRUE(a.send(b, frame_for(b.qpn(), size, seed++)));
  a.wire->flush();
  b.turn();
  ASSERT_EQ(b.sink.all.size(), sizes.size());
  for (std::uint8_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(b.sink.all[i].frame, frame_for(b.qpn(), sizes[i], i)) << "frame " << int{i};
    const auto& d = b.sink.all[i].headers;
    EXPECT_EQ(d.source, a.address);
    EXPECT_EQ(d.destination, b.address);
    EXPECT_EQ(d.destination_qpn, b.qpn());
    EXPECT_EQ(d.way, packet::Way::host);
    EXPECT_EQ(d.source_port, 0xc000);
  }
}

TEST_F(TwoProcesses, AnswersGoBack) {
  ASSERT_TRUE(b.send(a, frame_for(a.qpn(), 100, 1)));
  b.wire->flush();
  a.turn();
  ASSERT_EQ(a.sink.all.size(), 1u);
  EXPECT_EQ(a.sink.all[0].frame, frame_for(a.qpn(), 100, 1));
}

/// What lies in the ring is said to be changeable, what was copied is not.
TEST_F(TwoProcesses, OnlyACopyIsNotChangeable) {
  ASSERT_TRUE(a.send(b, frame_for(b.qpn(), 100, 0)));
  ASSERT_TRUE(a.send(b, frame_for(b.qpn(), 4096, 0)));
  ASSERT_TRUE(a.send(b, frame_for(b.qpn(), 4096, 0)));
  a.wire->flush();
  b.turn();
  ASSERT_EQ(b.sink.all.size(), 3u);
  EXPECT_FALSE(b.sink.all[0].headers.changeable);
  EXPECT_FALSE(b.sink.all[0].headers.more);
  EXPECT_TRUE(b.sink.all[1].headers.changeable);
  EXPECT_TRUE(b.sink.all[1].headers.more) << "another one lies behind it";
  EXPECT_FALSE(b.sink.all[2].headers.more);
}

TEST_F(TwoProcesses, NFramesCountAsNPacketsWithHeaders) {
  constexpr std::size_t kFrames = 37, kSize = 1036;
  for (std::size_t i = 0; i < kFrames; ++i) ASSERT_TRUE(a.send(b, frame_for(b.qpn(), kSize, 0)));
  a.wire->flush();
  b.turn();
  const auto bytes = kFrames * (kSize + packet::kIcrcSize + ip_and_udp_size(true));
  const WireCounters& sent = a.wire->counters();
  EXPECT_EQ(sent.frames_sent, kFrames);
  ASSERT_EQ(sent.ports.size(), 1u);
  EXPECT_EQ(sent.ports[0].sent_packets, kFrames);
  EXPECT_EQ(sent.ports[0].sent_bytes, bytes);
  const WireCounters& received = b.wire->counters();
  EXPECT_EQ(received.frames_received, kFrames);
  ASSERT_EQ(received.ports.size(), 1u);
  EXPECT_EQ(received.ports[0].received_packets, kFrames);
  EXPECT_EQ(received.ports[0].received_bytes, bytes);
  EXPECT_EQ(sent.send_errors + received.malformed + received.handover_drops, 0u);
}

TEST_F(TwoProcesses, SealedFramesGoToo) {
  auto frame = frame_for(b.qpn(), 100, 4);
  frame.resize(104);
  ASSERT_TRUE(a.wire->send_sealed(a.to(b.address), b.qpn(), frame));
  a.wire->flush();
  b.turn();
  ASSERT_EQ(b.sink.all.size(), 1u);
  EXPECT_EQ(b.sink.all[0].frame, frame_for(b.qpn(), 100, 4));
}

TEST_F(TwoProcesses, MessagesOfTheConnectionManagerHaveTheirOwnEntrance) {
  ASSERT_TRUE(a.send(b, frame_for(packet::kGsiQpn, 276, 0)));
  ASSERT_TRUE(a.send(b, frame_for(packet::kGsiQpn, 4096, 0)));  // no message is so long
  a.wire->flush();
  b.turn();
  ASSERT_EQ(b.sink.managed.size(), 1u);
  EXPECT_EQ(b.sink.managed[0].frame.size(), 276u);
  EXPECT_EQ(b.wire->counters().handover_drops, 1u);
}

TEST_F(TwoProcesses, FramesForAnotherProcessAreDroppedAndCounted) {
  ASSERT_TRUE(a.send(b, frame_for(a.qpn(), 100, 0)));
  a.wire->flush();
  b.turn();
  EXPECT_TRUE(b.sink.all.empty());
  EXPECT_EQ(b.wire->counters().handover_drops, 1u);
}

TEST_F(TwoProcesses, FramesToAnAddressThatIsNotOpenAreDroppedAndCounted) {
  auto flow = a.to(loopback(99));
  ASSERT_EQ(a.wire->reserve(flow, b.qpn(), 100).size(), 100u);
  a.wire->commit();
  a.wire->flush();
  b.turn();
  EXPECT_TRUE(b.sink.all.empty());
  EXPECT_EQ(b.wire->counters().malformed, 1u);
}

TEST_F(TwoProcesses, AFullRingHoldsBackAndLosesNothing) {
  constexpr unsigned kFrames = 20'000;  // 80 MB
  unsigned sent = 0;
  bool held_back = false;
  while (b.sink.all.size() < kFrames) {
    while (sent < kFrames && a.send(b, frame_for(b.qpn(), 4112, static_cast<std::uint8_t>(sent)))) {
      ++sent;
    }
    held_back = held_back || sent < kFrames;
    a.wire->flush();
    const std::size_t before = b.sink.all.size();
    b.turn();
    ASSERT_GT(b.sink.all.size(), before);
    for (std::size_t i = before; i < b.sink.all.size(); ++i) {
      ASSERT_EQ(b.sink.all[i].frame, frame_for(b.qpn(), 4112, static_cast<std::uint8_t>(i)));
      b.sink.all[i].frame = {};
    }
  }
  EXPECT_TRUE(held_back);
  EXPECT_EQ(b.sink.all.size(), kFrames);
}

TEST_F(TwoProcesses, ASleeperIsWokenOnceAndFindsTheFrame) {
  (void)b.rings();
  b.wire->woken();
  ASSERT_TRUE(b.wire->may_sleep());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(a.send(b, frame_for(b.qpn(), 100, 0)));
    a.wire->flush();
  }
  EXPECT_TRUE(b.wire->arrived());
  EXPECT_EQ(b.rings(), 1u);
  b.wire->woken();
  b.turn();
  EXPECT_EQ(b.sink.all.size(), 3u);
  ASSERT_TRUE(a.send(b, frame_for(b.qpn(), 100, 0)));
  a.wire->flush();
  EXPECT_EQ(b.rings(), 0u) << "it is awake";
  EXPECT_FALSE(b.wire->may_sleep());
}

// ---- which way

TEST(ShmWire, FramesOfTheFirstMomentNeedNotWaitForTheAnswer) {
  Process a{1}, b{2};
  ASSERT_EQ(a.carriage(b), Carriage::carried);
  for (std::uint8_t i = 0; i < 10; ++i) ASSERT_TRUE(a.send(b, frame_for(b.qpn(), 100, i)));
  a.wire->flush();
  ASSERT_TRUE(drive([&] { return b.sink.all.size() == 10; }, b));
  EXPECT_EQ(b.sink.all[9].frame, frame_for(b.qpn(), 100, 9));
}

TEST(ShmWire, BothMayOfferAtTheSameTime) {
  Process a{1}, b{2};
  ASSERT_EQ(a.carriage(b), Carriage::carried);
  ASSERT_EQ(b.carriage(a), Carriage::carried);
  ASSERT_TRUE(a.send(b, frame_for(b.qpn(), 100, 1)));
  ASSERT_TRUE(b.send(a, frame_for(a.qpn(), 100, 2)));
  ASSERT_TRUE(drive([&] { return a.sink.all.size() + b.sink.all.size() == 2; }, a, b));
  EXPECT_EQ(a.carriage(b), Carriage::carried);
  EXPECT_EQ(b.carriage(a), Carriage::carried);
}

/// A link that is made while its process sleeps: the answer must wake it.
TEST(ShmWire, ALinkThatIsMadeInItsSleepWakesItsProcess) {
  Process a{1}, b{2};
  ASSERT_TRUE(a.wire->may_sleep());
  ASSERT_EQ(a.carriage(b), Carriage::carried);  // a thread of the program sends
  ASSERT_TRUE(drive([&] { return b.wire->in_use(); }, b));
  a.serve();
  ASSERT_TRUE(b.send(a, frame_for(a.qpn(), 100, 0)));
  b.wire->flush();
  EXPECT_EQ(a.rings(), 1u) << "nobody rang";
}

TEST(ShmWire, AProcessHasALinkToItself) {
  Process a{1};
  ASSERT_EQ(a.carriage(a), Carriage::carried);
  ASSERT_TRUE(a.send(a, frame_for(a.qpn(), 700, 3)));
  a.wire->flush();
  a.turn();
  ASSERT_EQ(a.sink.all.size(), 1u);
  EXPECT_EQ(a.sink.all[0].frame, frame_for(a.qpn(), 700, 3));
}

TEST(ShmWire, WhoIsNotThereIsReachedOtherwise) {
  Process a{1};
  Stranger b{2};
  const auto slot_of_nobody = [&] {
    std::uint32_t slot = 1;
    while (a.registry->held(slot)) ++slot;
    return slot;
  }();
  EXPECT_EQ(a.wire->carriage(a.to(b.address), Qpn{0}), Carriage::other_host);
  EXPECT_EQ(a.wire->carriage(a.to(b.address), qpn_at(slot_of_nobody)), Carriage::other_host);
  EXPECT_EQ(a.wire->carriage(a.to(IpAddress::v4({239, 0, 0, 1})), b.qpn()), Carriage::other_host);
  // A QPN of another host may have the number of a slot here.
  EXPECT_EQ(a.wire->carriage(a.to(loopback(77)), b.qpn()), Carriage::other_host);
  EXPECT_FALSE(a.wire->in_use());
  EXPECT_EQ(a.carriage(b), Carriage::carried);
}

TEST(ShmWire, WhoTakesNoRingsIsReachedOtherwise) {
  Process a{1};
  Stranger b{2};
  b.registry->table().set_traits(b.slot(), 0);
  EXPECT_EQ(a.carriage(b), Carriage::peer_declines);
  EXPECT_FALSE(a.wire->in_use());
}

TEST(ShmWire, AProcessWithoutAWireSaysSo) {
  Process a{1}, b{2};
  b.wire.reset();
  EXPECT_EQ(a.carriage(b), Carriage::peer_declines);
}

// ---- death

TEST(ShmWire, WhatADeadProcessPublishedIsTakenAndThenItsLinkGoes) {
  Process a{1};
  auto b = std::make_unique<Process>(2);
  ASSERT_EQ(b->carriage(a), Carriage::carried);
  ASSERT_TRUE(drive([&] { return a.wire->in_use(); }, *b, a));
  for (std::uint8_t i = 0; i < 100; ++i) ASSERT_TRUE(b->send(a, frame_for(a.qpn(), 1000, i)));
  b->wire->flush();
  for (std::uint8_t i = 0; i < 10; ++i) ASSERT_TRUE(b->send(a, frame_for(a.qpn(), 100, i)));
  const Qpn qpn = b->qpn();
  const IpAddress address = b->address;
  b.reset();  // with 10 frames that nobody published
  ASSERT_TRUE(drive([&] { return !a.wire->in_use(); }, a));
  ASSERT_EQ(a.sink.all.size(), 100u);
  EXPECT_EQ(a.sink.all[99].frame, frame_for(a.qpn(), 1000, 99));
  EXPECT_EQ(a.wire->carriage(a.to(address), qpn), Carriage::other_host);
}

TEST(ShmWire, FramesToTheDeadAreLost) {
  Process a{1};
  auto b = std::make_unique<Process>(2);
  ASSERT_EQ(a.carriage(*b), Carriage::carried);
  ASSERT_TRUE(drive([&] { return b->wire->in_use(); }, a, *b));
  a.turn();
  const packet::Flow flow = a.to(b->address);
  const Qpn qpn = b->qpn();
  b.reset();
  ASSERT_TRUE(drive([&] { return !a.wire->in_use(); }, a));
  const auto sent = a.wire->counters().frames_sent;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(a.wire->reserve(flow, qpn, 4096).size(), 4096u) << "nobody will ever make room";
    a.wire->commit();
  }
  a.wire->flush();
  EXPECT_EQ(a.wire->counters().frames_sent, sent);
}

/// Any process can be reached at an address of its peer.
struct ChildProcess : ChildPeer<Process> {
  explicit ChildProcess(Process& peer)
      : ChildPeer{[] { return std::make_unique<Process>(std::uint8_t{2}); }, {&peer}} {}
  [[nodiscard]] Qpn qpn() const { return qpn_at(slot()); }
};

TEST(ShmWire, AKilledProcessIsNoticed) {
  Process a{1};
  ChildProcess b{a};
  const auto flow = a.to(a.address);
  ASSERT_EQ(a.wire->carriage(flow, b.qpn()), Carriage::carried);
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(a.wire->reserve(flow, b.qpn(), 100).size(), 100u);
    a.wire->commit();
  }
  a.wire->flush();
  b.kill();
  ASSERT_TRUE(drive([&] { return !a.wire->in_use(); }, a));
}

TEST(ShmWire, AStoppedProcessHoldsBackItsSendersAlone) {
  Process a{1}, c{3};
  ChildProcess b{a};
  b.stop();
  const auto flow = a.to(a.address);
  ASSERT_EQ(a.wire->carriage(flow, b.qpn()), Carriage::carried);
  std::size_t frames = 0;
  while (!a.wire->reserve(flow, b.qpn(), 4096).empty()) {
    a.wire->commit();
    ASSERT_LE(++frames * 4096, Link::kMostRingBytes);
  }
  EXPECT_FALSE(a.wire->full());
  ASSERT_EQ(a.carriage(c), Carriage::carried);
  ASSERT_TRUE(a.send(c, frame_for(c.qpn(), 100, 9)));
  ASSERT_TRUE(drive([&] { return c.sink.all.size() == 1; }, a, c));
}

TEST_F(TwoProcesses, AForkedChildLetsGoAndTheParentGoesOn) {
  ASSERT_TRUE(a.send(b, frame_for(b.qpn(), 100, 1)));
  const pid_t child = ::fork();
  if (child == 0) {
    a.abandon();
    b.abandon();
    ::_exit(a.wire->descriptors().bell == -1 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  a.wire->flush();
  b.turn();
  ASSERT_EQ(b.sink.all.size(), 1u);
}

}  // namespace
}  // namespace verbena::wire::test
