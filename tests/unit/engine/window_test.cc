#include "engine/window.h"

#include <gtest/gtest.h>

namespace verbena::engine {
namespace {

constexpr std::uint32_t kSocketDefault = 212'992;
constexpr std::uint32_t kLarge = Window::truesize(4096);
constexpr std::uint32_t kSmall = Window::truesize(64);

// As counted on Linux: datagrams that the default receive buffer holds.
static_assert(kSocketDefault / kSmall == 256);
static_assert(kSocketDefault / Window::truesize(512) == 166);
static_assert(kSocketDefault / Window::truesize(1024) == 92);
static_assert(kSocketDefault / Window::truesize(2048) == 48);
static_assert(kSocketDefault / kLarge == 25);

/// A sender that always has more to send, on a path with a constant round trip.
struct Stream {
  explicit Stream(std::uint32_t payload, Psn start = Psn{0xff'fff0})
      : cost{Window::truesize(payload)}, unacked{start}, end{start} {}

  void send() {
    for (std::uint32_t n = window.room(cost); n > 0; --n) {
      window.sent(1, cost);
      end = end.next();
    }
  }
  [[nodiscard]] std::uint32_t packets() const {
    return static_cast<std::uint32_t>(distance(end, unacked));
  }
  /// Everything in flight is answered, packet by packet, and more is sent.
  void round_trip() {
    for (std::uint32_t n = packets(); n > 0; --n) {
      unacked = unacked.next();
      window.acknowledged(cost, unacked);
    }
    send();
  }
  Window window{4096};
  std::uint32_t cost;
  Psn unacked;
  Psn end;
};

TEST(CongestionWindow, StartsSmall) {
  Stream large{4096};
  large.send();
  EXPECT_EQ(large.packets(), 2u);
  Stream small{64};
  small.send();
  EXPECT_EQ(small.packets(), 20u);
}

TEST(CongestionWindow, DoublesEachRoundTripUpToItsCap) {
  Stream s{4096};
  s.send();
  for (std::uint32_t expected = 4; expected <= 64; expected *= 2) {
    s.round_trip();
    EXPECT_EQ(s.packets(), expected);
  }
  for (int i = 0; i < 100; ++i) s.round_trip();
  EXPECT_EQ(s.packets(), (1u << 20) / kLarge);
}

TEST(CongestionWindow, HoldsManySmallPacketsOrFewLargeOnes) {
  Stream small{64};
  Stream large{4096};
  for (int i = 0; i < 10; ++i) {
    small.round_trip();
    large.round_trip();
  }
  EXPECT_GT(small.packets(), 1000u);
  EXPECT_LT(large.packets(), 128u);
}

TEST(CongestionWindow, LeavesOnePacketWhateverItsSize) {
  Window w{256};
  w.collapse(Psn{1});
  EXPECT_LT(w.limit(), kLarge);
  EXPECT_EQ(w.room(kLarge), 1u);
  w.sent(1, kLarge);
  EXPECT_EQ(w.room(kLarge), 0u);
  EXPECT_EQ(w.room(kSmall), 0u);
}

TEST(CongestionWindow, HalvesOnceForAllLossesOfARoundTrip) {
  Stream s{4096};
  for (int i = 0; i < 6; ++i) s.round_trip();
  const std::uint32_t before = s.window.limit();
  s.window.halve(s.end);
  EXPECT_EQ(s.window.limit(), before / 2);
  // Half of what was in flight is acknowledged, then another loss of the same window shows.
  const std::uint32_t in_flight = s.packets();
  for (std::uint32_t n = in_flight / 2; n > 0; --n) {
    s.unacked = s.unacked.next();
    s.window.acknowledged(s.cost, s.unacked);
  }
  const std::uint32_t meanwhile = s.window.limit();
  s.window.lost(s.end);
  s.window.halve(s.end);
  EXPECT_EQ(s.window.limit(), meanwhile);
  // The rest is acknowledged: the next loss is news.
  s.round_trip();
  s.round_trip();
  const std::uint32_t later = s.window.limit();
  s.window.halve(s.end);
  EXPECT_EQ(s.window.limit(), later / 2);
}

TEST(CongestionWindow, RecoversFromALossThroughSlowStartToHalf) {
  Stream s{4096};
  for (int i = 0; i < 6; ++i) s.round_trip();
  const std::uint32_t before = s.window.limit();
  s.window.lost(s.end);
  s.window.went_back();
  s.end = s.unacked;
  EXPECT_EQ(s.window.limit(), before / 4);
  s.send();
  s.round_trip();
  s.round_trip();
  EXPECT_GE(s.window.limit(), before / 2);
  EXPECT_LE(s.window.limit(), before / 2 + kLarge);
}

TEST(CongestionWindow, GrowsByHalfAPacketEachRoundTripAfterALoss) {
  for (const std::uint32_t payload : {64u, 4096u}) {
    Stream s{payload};
    for (int i = 0; i < 6; ++i) s.round_trip();
    s.window.halve(s.end);
    s.round_trip();
    s.round_trip();
    const std::uint32_t before = s.window.limit();
    constexpr std::uint32_t kRounds = 20;
    for (std::uint32_t i = 0; i < kRounds; ++i) s.round_trip();
    const std::uint32_t after = before + kRounds * s.cost / 2;
    EXPECT_NEAR(s.window.limit(), after, s.cost);
  }
}

TEST(CongestionWindow, CollapsesToOnePacketAndKeepsHalfAsItsAim) {
  Stream s{4096};
  for (int i = 0; i < 6; ++i) s.round_trip();
  const std::uint32_t before = s.window.limit();
  s.window.collapse(s.end);
  s.window.went_back();
  EXPECT_EQ(s.window.limit(), kLarge);
  s.window.collapse(s.end);  // and again: the aim stays
  s.end = s.unacked;
  s.send();
  EXPECT_EQ(s.packets(), 1u);
  for (int i = 0; i < 20; ++i) s.round_trip();
  EXPECT_GE(s.window.limit(), before / 2);
  EXPECT_LE(s.window.limit(), before);
}

TEST(CongestionWindow, TakesACollapseBackWhenTheAnswerWasOnlyLate) {
  Stream s{4096};
  for (int i = 0; i < 6; ++i) s.round_trip();
  const Window::Size before = s.window.size();
  s.window.collapse(s.end);
  s.window.collapse(s.end);
  s.window.went_back();
  s.window.acknowledged(s.cost, s.unacked.next());
  EXPECT_LT(s.window.limit(), before.limit / 2);
  s.window.restore(before);
  EXPECT_EQ(s.window.limit(), before.limit);
  // What has been learned meanwhile is kept.
  s.window.restore({.limit = kLarge, .threshold = kLarge});
  EXPECT_EQ(s.window.limit(), before.limit);
}

TEST(CongestionWindow, DoesNotGrowWhenItIsNotUsed) {
  Window w{4096};
  const std::uint32_t before = w.limit();
  for (std::uint32_t i = 1; i <= 1000; ++i) {  // ping-pong
    w.sent(1, kSmall);
    w.acknowledged(kSmall, Psn{i});
  }
  EXPECT_EQ(w.limit(), before);
  EXPECT_EQ(w.in_flight(), 0u);
}

TEST(CongestionWindow, NeverFallsBelowAPacket) {
  Window w{4096};
  for (std::uint32_t i = 1; i <= 100; ++i) {
    w.lost(Psn{i});
    w.acknowledged(0, Psn{i});
  }
  EXPECT_EQ(w.limit(), kLarge);
}

}  // namespace
}  // namespace verbena::engine
