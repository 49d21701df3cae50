#include "host/shutdown/bounded_wait.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>

namespace verbena::host {
namespace {

using namespace std::chrono_literals;

struct VirtualTime {
  Instant time{1h};
  [[nodiscard]] Instant now() const { return time; }
  void sleep(Duration d) { time += d; }
};

/// Free from an instant on.
struct LateMutex {
  const VirtualTime& clock;
  Instant free_from;
  int tries = 0;
  bool try_lock() {
    ++tries;
    return clock.time >= free_from;
  }
  void lock() { FAIL() << "would wait without a limit"; }
  void unlock() {}
};

TEST(BoundedWaitTest, LooksOnceEvenWithoutTime) {
  VirtualTime clock;
  EXPECT_TRUE(wait_within(
      0s, [] { return true; }, clock));
  EXPECT_FALSE(wait_within(
      0s, [] { return false; }, clock));
  EXPECT_EQ(clock.time, Instant{1h});
}

TEST(BoundedWaitTest, EndsAsSoonAsItIsDone) {
  VirtualTime clock;
  int looks = 0;
  EXPECT_TRUE(wait_within(
      20ms, [&] { return ++looks == 3; }, clock));
  EXPECT_EQ(clock.time, Instant{1h} + 2 * kBoundedWaitPause);
}

TEST(BoundedWaitTest, EndsAtTheLimit) {
  VirtualTime clock;
  EXPECT_FALSE(wait_within(
      20ms, [] { return false; }, clock));
  EXPECT_EQ(clock.time, Instant{1h} + 20ms);
}

TEST(BoundedWaitTest, ALockThatComesFreeInTimeIsTaken) {
  VirtualTime clock;
  LateMutex mutex{clock, clock.time + 1ms};
  EXPECT_TRUE(lock_within(mutex, 20ms, clock).owns_lock());
  EXPECT_EQ(clock.time, Instant{1h} + 1ms);
}

TEST(BoundedWaitTest, ALockThatNeverComesFreeIsNotHeld) {
  VirtualTime clock;
  LateMutex mutex{clock, clock.time + 1h};
  EXPECT_FALSE(lock_within(mutex, 20ms, clock).owns_lock());
}

}  // namespace
}  // namespace verbena::host
