#include "engine/transport_timer.h"

#include <gtest/gtest.h>

namespace verbena::engine {
namespace {

using namespace std::chrono_literals;

constexpr Duration once(std::uint8_t code) { return 4096ns * (std::int64_t{1} << code); }

TEST(TransportTimer, RunsForThreeTimesTheTimeout) {
  EXPECT_EQ(transport_timeout(9), 3 * once(9));
  EXPECT_EQ(transport_timeout(14), 3 * once(14));
}

TEST(TransportTimer, AddsNoMoreThanTheLongestWaitForACore) {
  EXPECT_EQ(transport_timeout(19), once(19) + 400ms);
  EXPECT_EQ(transport_timeout(31), once(31) + 400ms);
}

TEST(TransportTimer, LeavesTimeToGetACore) {
  EXPECT_EQ(transport_timeout(1), 4ms);
  EXPECT_EQ(transport_timeout(8), 4ms);  // 3.1 ms
}

}  // namespace
}  // namespace verbena::engine
