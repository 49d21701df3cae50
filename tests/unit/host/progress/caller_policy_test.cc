#include "host/progress/caller_policy.h"

#include <gtest/gtest.h>

namespace verbena::host {
namespace {

TEST(PostsMayWait, WhileThePeerIsBusyAndFewWait) {
  struct Row {
    PostedRequests requests;
    bool may_wait;
  };
  constexpr Row kTable[] = {
      {{.unfinished = 1, .waiting = 1}, false},    // the peer has nothing else to do
      {{.unfinished = 8, .waiting = 1}, false},    // …
      {{.unfinished = 9, .waiting = 1}, true},     // it has
      {{.unfinished = 100, .waiting = 15}, true},  // one more goes with them
      {{.unfinished = 100, .waiting = 16}, false}, {{.unfinished = 16, .waiting = 16}, false},
  };
  for (const Row& row : kTable) {
    EXPECT_EQ(posts_may_wait(row.requests), row.may_wait)
        << row.requests.unfinished << " unfinished, " << row.requests.waiting << " waiting";
  }
}

TEST(PollerPatience, IsOverWhenNothingWasFoundForLong) {
  const Instant begin{std::chrono::seconds{1}};
  PollerPatience patience;
  EXPECT_FALSE(patience.is_over());
  patience.found_nothing(begin);
  patience.found_nothing(begin + PollerPatience::kPatience - Duration{1});
  EXPECT_FALSE(patience.is_over());
  patience.found_nothing(begin + PollerPatience::kPatience);
  EXPECT_TRUE(patience.is_over());
}

TEST(PollerPatience, BeginsAnewWithEachFind) {
  const Instant begin{std::chrono::seconds{1}};
  PollerPatience patience;
  patience.found_nothing(begin);
  patience.found_nothing(begin + std::chrono::seconds{1});
  patience.found();
  EXPECT_FALSE(patience.is_over());
  patience.found_nothing(begin + std::chrono::seconds{2});
  EXPECT_FALSE(patience.is_over());
}

}  // namespace
}  // namespace verbena::host
