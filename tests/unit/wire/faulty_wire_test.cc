#include "wire/faulty_wire.h"

#include <gtest/gtest.h>

#include "tests/support/memory_wire.h"
#include "tests/support/station.h"

namespace verbena::wire::test {
namespace {

TEST(FaultyWire, DelaysFramesAndTellsWhenItWantsToBeCalled) {
  Station a{loopback(1), {.faults = settings::FaultSpec{.delay = 20ms}, .capture = {}}};
  Station b{loopback(2)};
  settle({&a, &b});
  EXPECT_EQ(a.out().next_deadline(), kNever);
  const Instant start = monotonic_now();
  ASSERT_TRUE(a.send(a.flow_to(b.address), frame_to(b.qpn(), 100, 1)));
  a.flush();
  EXPECT_GE(a.out().next_deadline(), start + 20ms);
  EXPECT_EQ(a.out().next_deadline(), a.faulty->empty_at());
  ASSERT_TRUE(run_until({&b}, [&] {
    a.flush();
    return !b.sink.frames.empty();
  }));
  EXPECT_GE(monotonic_now() - start, 20ms);
  EXPECT_EQ(a.faulty->empty_at(), Instant{});
}

TEST(FaultyWire, EveryFrameIsADatagramOfItsOwn) {
  Station a{loopback(1), {.faults = settings::FaultSpec{.drop = 0.5}, .capture = {}}};
  Station b{loopback(2)};
  settle({&a, &b});
  constexpr std::size_t kFrames = 200;
  for (std::size_t i = 0; i < kFrames; ++i) {
    ASSERT_TRUE(a.send(a.flow_to(b.address), frame_to(b.qpn(), 100, static_cast<std::uint8_t>(i))));
  }
  a.flush();
  const auto dropped = a.faulty->fault_counters().dropped;
  EXPECT_GT(dropped, kFrames / 4);
  EXPECT_LT(dropped, kFrames * 3 / 4);
  ASSERT_TRUE(run_until({&b}, [&] { return b.sink.frames.size() == kFrames - dropped; }));
  EXPECT_EQ(b.counters().icrc_errors, 0u);
}

TEST(FaultyWire, DamagedFramesDontGetThrough) {
  Station a{loopback(1), {.faults = settings::FaultSpec{.corrupt = 1}, .capture = {}}};
  Station b{loopback(2)};
  settle({&a, &b});
  for (std::uint8_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(a.send(a.flow_to(b.address), frame_to(b.qpn(), 100, i)));
  }
  a.flush();
  ASSERT_TRUE(run_until(
      {&b}, [&] { return b.counters().icrc_errors + b.counters().handover_drops == 100; }));
  EXPECT_TRUE(b.sink.frames.empty());
}

TEST(FaultyWire, ASlowLineHoldsItsUserBack) {
  Station a{loopback(1), {.faults = settings::FaultSpec{.rate = 1e6}, .capture = {}}};
  Station b{loopback(2)};
  settle({&a, &b});
  const auto flow = a.flow_to(b.address);
  const auto frame = frame_to(b.qpn(), 1000, 1);
  std::size_t sent = 0;
  while (sent < 1000 && a.send(flow, frame)) ++sent;
  EXPECT_LE(sent, FaultyWire::kMaxWaiting);
  const std::size_t first = sent;
  ASSERT_TRUE(run_until({&b}, [&] {
    a.flush();
    if (sent == first && a.send(flow, frame)) ++sent;
    return sent > first;
  }));
}

/// A faulty wire around one in memory, whose paths the test makes full.
class FaultyWireInMemory : public testing::Test {
 protected:
  bool send(const IpAddress& to, std::uint8_t seed) {
    const auto frame = frame_to(Qpn{7}, 64, seed);
    const auto room = faulty_.reserve({.source = kHere, .destination = to}, Qpn{7}, frame.size());
    if (room.empty()) return false;
    std::ranges::copy(frame, room.begin());
    faulty_.commit();
    return true;
  }
  void SetUp() override {
    ASSERT_TRUE(slow_.open_address({kSlow, 0}).ok());
    ASSERT_TRUE(quick_.open_address({kQuick, 0}).ok());
    here_.limit(kSlow, 1);
  }

  static constexpr IpAddress kHere = IpAddress::v4({10, 0, 0, 1});
  static constexpr IpAddress kSlow = IpAddress::v4({10, 0, 0, 2});
  static constexpr IpAddress kQuick = IpAddress::v4({10, 0, 0, 3});
  std::vector<std::uint8_t> memory_ =
      std::vector<std::uint8_t>(3 * MemoryWire::kRoomBytes + FaultyWire::kRoomBytes);
  std::span<std::uint8_t> room_{memory_};
  MemoryNetwork network_;
  MemoryWire here_{network_, room_};
  MemoryWire slow_{network_, room_.subspan(MemoryWire::kRoomBytes)};
  MemoryWire quick_{network_, room_.subspan(2 * MemoryWire::kRoomBytes)};
  FaultyWire faulty_{here_, settings::FaultSpec{}, room_.subspan(3 * MemoryWire::kRoomBytes)};
};

TEST_F(FaultyWireInMemory, APathThatIsFullHoldsUpNoOther) {
  for (std::uint8_t i = 0; i < 3; ++i) ASSERT_TRUE(send(kSlow, i));
  for (std::uint8_t i = 0; i < 3; ++i) ASSERT_TRUE(send(kQuick, i));
  faulty_.flush();
  Collector quick;
  quick_.receive(quick);
  EXPECT_EQ(quick.frames.size(), 3u);
}

TEST_F(FaultyWireInMemory, WhatWasRefusedIsTriedAgainInItsOrder) {
  for (std::uint8_t i = 0; i < 3; ++i) ASSERT_TRUE(send(kSlow, i));
  faulty_.flush();
  EXPECT_LT(faulty_.next_deadline(), kNever) << "nobody else would call it";
  EXPECT_GT(faulty_.empty_at(), Instant{});
  Collector slow;
  for (int i = 0; i < 3; ++i) {
    slow_.receive(slow);
    faulty_.flush();
  }
  slow_.receive(slow);
  ASSERT_EQ(slow.frames.size(), 3u);
  for (std::uint8_t i = 0; i < 3; ++i) {
    EXPECT_EQ(slow.frames[i].frame, frame_to(Qpn{7}, 64, i));
  }
  EXPECT_EQ(faulty_.next_deadline(), kNever);
}

}  // namespace
}  // namespace verbena::wire::test
