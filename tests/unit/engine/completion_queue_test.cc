#include "engine/completion_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>

namespace verbena::engine {
namespace {

using Pushed = CompletionQueue::Pushed;

Completion numbered(std::uint64_t id) {
  Completion c;
  c.wr_id = id;
  return c;
}

TEST(CompletionQueue, KeepsOrderAndReportsOverrun) {
  CompletionQueue cq{3};
  for (std::uint64_t i = 0; i < 3; ++i) EXPECT_EQ(cq.push(numbered(i)), Pushed::quietly);
  EXPECT_EQ(cq.push(numbered(3)), Pushed::overrun);
  std::array<Completion, 2> two;
  ASSERT_EQ(cq.poll(two), 2u);
  EXPECT_EQ(two[0].wr_id, 0u);
  EXPECT_EQ(two[1].wr_id, 1u);
  EXPECT_EQ(cq.push(numbered(4)), Pushed::quietly);
  ASSERT_EQ(cq.poll(two), 2u);
  EXPECT_EQ(two[0].wr_id, 2u);
  EXPECT_EQ(two[1].wr_id, 4u);
  EXPECT_TRUE(cq.empty());
}

TEST(CompletionQueue, OneEventForOneRequest) {
  CompletionQueue cq{8};
  cq.arm(false);
  EXPECT_EQ(cq.push(numbered(0)), Pushed::raise_event);
  EXPECT_EQ(cq.push(numbered(1)), Pushed::quietly);
}

TEST(CompletionQueue, SolicitedRequestWaitsForASolicitedCompletionOrAnError) {
  CompletionQueue cq{8};
  cq.arm(true);
  EXPECT_EQ(cq.push(numbered(0)), Pushed::quietly);
  Completion solicited = numbered(1);
  solicited.solicited = true;
  EXPECT_EQ(cq.push(solicited), Pushed::raise_event);
  cq.arm(true);
  Completion failed = numbered(2);
  failed.status = CompletionStatus::flushed;
  EXPECT_EQ(cq.push(failed), Pushed::raise_event);
}

TEST(CompletionQueue, SolicitedRequestDoesNotWeakenOneForAny) {
  CompletionQueue cq{8};
  cq.arm(false);
  cq.arm(true);
  EXPECT_EQ(cq.push(numbered(0)), Pushed::raise_event);
}

TEST(CompletionQueue, ModeratedEventsWaitForTheirCountOrTheirTime) {
  CompletionQueue cq{16};
  cq.moderate(3, std::chrono::microseconds{10});
  const Instant start{std::chrono::seconds{1}};
  const auto at = [&](int us) {
    Completion c = numbered(0);
    c.at = start + std::chrono::microseconds{us};
    return c;
  };
  EXPECT_EQ(cq.push(at(0)), Pushed::quietly);  // nobody waits
  EXPECT_EQ(cq.due(), kNever);
  cq.arm(false);
  EXPECT_EQ(cq.push(at(1)), Pushed::raise_later);
  EXPECT_EQ(cq.due(), start + std::chrono::microseconds{11});
  EXPECT_EQ(cq.push(at(2)), Pushed::quietly);
  EXPECT_EQ(cq.push(at(3)), Pushed::raise_event);
  EXPECT_EQ(cq.due(), kNever);

  cq.arm(false);
  EXPECT_EQ(cq.push(at(4)), Pushed::raise_later);
  EXPECT_TRUE(cq.expire());
  EXPECT_FALSE(cq.expire());  // once
  EXPECT_EQ(cq.push(at(5)), Pushed::quietly);

  cq.moderate(2, {});  // without a limit in time
  cq.arm(false);
  EXPECT_EQ(cq.push(at(6)), Pushed::quietly);
  EXPECT_EQ(cq.due(), kNever);
  EXPECT_EQ(cq.push(at(7)), Pushed::raise_event);
}

TEST(CompletionQueue, IgnoredOverrunLosesWhatDoesNotFit) {
  CompletionQueue cq{1, CompletionQueue::Overrun::ignored};
  EXPECT_EQ(cq.push(numbered(0)), Pushed::quietly);
  EXPECT_EQ(cq.push(numbered(1)), Pushed::quietly);
  std::array<Completion, 2> two;
  ASSERT_EQ(cq.poll(two), 1u);
  EXPECT_EQ(two[0].wr_id, 0u);
}

TEST(CompletionQueue, ResizingKeepsWhatWaits) {
  CompletionQueue cq{4};
  std::array<Completion, 8> some;
  for (std::uint64_t i = 0; i < 3; ++i) EXPECT_EQ(cq.push(numbered(i)), Pushed::quietly);
  EXPECT_EQ(cq.poll(std::span{some}.first(1)), 1u);
  EXPECT_EQ(cq.push(numbered(3)), Pushed::quietly);
  EXPECT_FALSE(cq.resize(2));
  ASSERT_TRUE(cq.resize(3));
  EXPECT_EQ(cq.capacity(), 3u);
  EXPECT_EQ(cq.push(numbered(4)), Pushed::overrun);
  ASSERT_EQ(cq.poll(some), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(some[i].wr_id, i + 1);
}

// Arm, look again, sleep: the way every event-driven program goes. Nobody may sleep for ever.
TEST(CompletionQueue, NoCompletionIsMissedBetweenArmingAndSleeping) {
  constexpr std::uint64_t kCount = 100'000;
  CompletionQueue cq{16};
  std::atomic<std::uint64_t> events{0};
  std::jthread producer{[&] {
    for (std::uint64_t i = 0; i < kCount;) {
      const Pushed p = cq.push(numbered(i));
      if (p == Pushed::overrun) continue;
      ++i;
      if (p == Pushed::raise_event) {
        events.fetch_add(1);
        events.notify_one();
      }
    }
  }};
  std::uint64_t next = 0;
  std::uint64_t seen = 0;
  const auto drain = [&] {
    std::array<Completion, 4> some;
    while (const std::size_t n = cq.poll(some)) {
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(some[i].wr_id, next++);
    }
  };
  while (next < kCount) {
    cq.arm(false);
    drain();
    if (next == kCount) break;
    events.wait(seen);
    seen = events.load();
    drain();
  }
}

TEST(CompletionQueue, DiscardsWhatOneQueuePairLeftAndKeepsTheOrderOfTheRest) {
  CompletionQueue cq{4};
  std::array<Completion, 4> out;
  (void)cq.push({.wr_id = 1});
  ASSERT_EQ(cq.poll(out), 1u);  // so that the ring wraps
  for (std::uint64_t id = 2; id < 6; ++id) {
    (void)cq.push({.wr_id = id, .qpn = Qpn{id % 2 == 0 ? 7u : 8u}});
  }
  cq.discard(Qpn{7});
  ASSERT_EQ(cq.poll(out), 2u);
  EXPECT_EQ(out[0].wr_id, 3u);
  EXPECT_EQ(out[1].wr_id, 5u);
  EXPECT_TRUE(cq.empty());
}

}  // namespace
}  // namespace verbena::engine
