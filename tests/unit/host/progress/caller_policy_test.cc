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

TEST(PollerYields, AfterManyVainPolls) {
  EXPECT_FALSE(poller_yields(0));
  EXPECT_FALSE(poller_yields(63));
  EXPECT_TRUE(poller_yields(64));
  EXPECT_TRUE(poller_yields(1000));
}

}  // namespace
}  // namespace verbena::host
