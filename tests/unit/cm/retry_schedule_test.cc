// When a message is sent again.

#include "cm/retry_schedule.h"

#include "tests/unit/cm/two_hosts.h"

namespace verbena::cm {
namespace {

TEST(RetryScheduleTest, AShortIntervalHasNoRoomForEarlyRetries) {
  const Instant t{1h};
  EXPECT_EQ(RetrySchedule(t, 399ms, 1).next(), t + 399ms);
  RetrySchedule one{t, 400ms, 1};
  EXPECT_EQ(one.next(), t + 200ms);
  EXPECT_TRUE(one.advance(t + 200ms));
  EXPECT_EQ(one.next(), t + 400ms);
}

TEST(RetryScheduleTest, OverdueRetriesAreOneRetry) {
  const Instant t{1h};
  RetrySchedule r{t, 4s, 1};
  r.add_extra(t + 3s);
  EXPECT_TRUE(r.advance(t + 5s));
  EXPECT_EQ(r.next(), t + 9s);
  EXPECT_FALSE(r.advance(t + 9s));
}

TEST(RetryScheduleTest, ExtraRetriesAreNotCounted) {
  const Instant t{1h};
  RetrySchedule r{t, 10s, 0};
  r.add_extra(t + 100ms);
  EXPECT_EQ(r.next(), t + 100ms);
  EXPECT_TRUE(r.advance(r.next()));
  EXPECT_EQ(r.next(), t + 200ms);
  EXPECT_TRUE(r.advance(r.next()));
  EXPECT_EQ(r.next(), t + 1s);
  EXPECT_TRUE(r.advance(r.next()));
  EXPECT_EQ(r.next(), t + 10s);
  EXPECT_FALSE(r.advance(r.next()));
}

TEST(RetryScheduleTest, PostponeDropsTheRetriesBefore) {
  const Instant t{1h};
  RetrySchedule r{t, 10s, 1};
  r.add_extra(t + 300ms);
  r.postpone(t + 100ms, 60s);
  EXPECT_EQ(r.next(), t + 60'100ms);
  EXPECT_TRUE(r.advance(r.next()));
  EXPECT_EQ(r.next(), t + 120'100ms);
}

}  // namespace
}  // namespace verbena::cm
