#include "engine/timer_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

#include "engine/queue_pair.h"

namespace verbena::engine {
namespace {

Instant at(int n) { return Instant{} + std::chrono::microseconds{n}; }

struct TimerQueueTest : testing::Test {
  TimerQueueTest() {
    for (std::uint32_t i = 0; i < 64; ++i) qps.emplace_back(Qpn{i}, QpInit{});
    timers.make_room_for(qps.size());
  }
  std::deque<QueuePair> qps;
  TimerQueue timers;
};

TEST_F(TimerQueueTest, IsNeverWithoutTimers) {
  EXPECT_TRUE(timers.empty());
  EXPECT_EQ(timers.first(), kNever);
  EXPECT_EQ(timers.of(qps[0]), kNever);
  timers.remove(qps[0]);
}

TEST_F(TimerQueueTest, TimersMoveToAnEarlierInstant) {
  timers.set(qps[0], at(10));
  timers.set(qps[1], at(20));
  timers.set(qps[1], at(5));
  EXPECT_EQ(timers.of(qps[1]), at(5));
  EXPECT_EQ(&timers.pop(), &qps[1]);
  EXPECT_EQ(timers.of(qps[1]), kNever);
  EXPECT_EQ(&timers.pop(), &qps[0]);
  EXPECT_TRUE(timers.empty());
}

/// Against a list of all timers, which is looked through each time.
TEST_F(TimerQueueTest, GivesTheEarliestWhateverHappened) {
  std::mt19937 dice{7};
  std::vector<Instant> model(qps.size(), kNever);
  for (int step = 0; step < 20'000; ++step) {
    const std::size_t i = dice() % qps.size();
    const Instant when = at(static_cast<int>(dice() % 1000));
    switch (dice() % 4) {
      case 0:
        timers.remove(qps[i]);
        model[i] = kNever;
        break;
      case 1:
        if (!timers.empty()) {
          const auto popped = static_cast<std::size_t>(timers.pop().qpn.value());
          ASSERT_EQ(model[popped], *std::min_element(model.begin(), model.end()));
          model[popped] = kNever;
        }
        break;
      default:
        if (when >= model[i]) break;
        timers.set(qps[i], when);
        model[i] = when;
        break;
    }
    ASSERT_EQ(timers.first(), *std::min_element(model.begin(), model.end())) << "step " << step;
    ASSERT_EQ(timers.of(qps[i]), model[i]);
  }
}

}  // namespace
}  // namespace verbena::engine
