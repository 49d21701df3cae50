// SpareCore: what the kernel says about threads that run.

#include "host/progress/spare_core.h"

#include <gtest/gtest.h>

namespace verbena::host {
namespace {

TEST(SpareCore, ThreadsThatRunStandBeforeTheSlash) {
  EXPECT_EQ(SpareCore::runnable("0.10 0.53 0.96 2/80 8815\n"), 2u);
  EXPECT_EQ(SpareCore::runnable("120.10 98.53 90.96 117/4080 1048576\n"), 117u);
}

TEST(SpareCore, AnythingElseSaysNothing) {
  for (const char* text : {"", "0.10 0.53 0.96", "0.10 0.53 0.96 /80 1", "0.10 0.53 0.96 x/80 1",
                           "0.10 0.53 0.96 -2/80 1", "0.10 0.53 0.96 99999999999999999999/80 1"}) {
    EXPECT_FALSE(SpareCore::runnable(text)) << text;
  }
}

TEST(SpareCore, EveryThreadThatRunsNeedsACore) {
  EXPECT_TRUE(SpareCore::enough(2, 1, 0));
  EXPECT_TRUE(SpareCore::enough(2, 2, 0));
  EXPECT_FALSE(SpareCore::enough(2, 3, 0));
  EXPECT_TRUE(SpareCore::enough(2, 1, 1));
  EXPECT_FALSE(SpareCore::enough(2, 2, 1));
  EXPECT_FALSE(SpareCore::enough(1, 1, 1));
}

TEST(SpareCore, WithoutAnAnswerThereIsNone) {
  EXPECT_FALSE(SpareCore::enough(8, std::nullopt, 0));
  EXPECT_FALSE(SpareCore::enough(8, 0, 0));  // the caller runs
}

TEST(SpareCore, NoMachineHasOneForAMillionThreads) {
  SpareCore spare;
  EXPECT_FALSE(spare.exists(Instant{} + std::chrono::seconds{1}, 1'000'000));
}

TEST(SpareCore, AChildThatForgotItHasNone) {
  SpareCore spare;
  spare.abandon();
  EXPECT_FALSE(spare.exists(Instant{} + std::chrono::seconds{1}, 0));
}

}  // namespace
}  // namespace verbena::host
