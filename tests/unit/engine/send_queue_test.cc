#include "engine/send_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace verbena::engine {
namespace {

TEST(SendQueue, SignalAllSignalsEveryRequest) {
  SendQueue queue{4, 1, 0};
  ASSERT_EQ(queue.post({.signaled = false}, false), PostResult::posted);
  ASSERT_EQ(queue.post({.signaled = false}, true), PostResult::posted);
  ASSERT_EQ(queue.post({.signaled = true}, false), PostResult::posted);
  EXPECT_FALSE(queue.at(0).request.signaled);
  EXPECT_TRUE(queue.at(1).request.signaled);
  EXPECT_TRUE(queue.at(2).request.signaled);
}

TEST(SendQueue, RefusesWhatDoesNotFit) {
  SendQueue queue{2, 1, 8};
  std::vector<std::uint8_t> bytes(9);
  const auto address = reinterpret_cast<std::uint64_t>(bytes.data());
  const std::array two{Sge{address, 1, Key{1}}, Sge{address, 1, Key{1}}};
  EXPECT_EQ(queue.post({.sges = two}, false), PostResult::bad_request);
  const std::array nine{Sge{address, 9, Key{}}};
  EXPECT_EQ(queue.post({.inlined = true, .sges = nine}, false), PostResult::bad_request);
  const std::array eight{Sge{address, 8, Key{}}};
  EXPECT_EQ(queue.post({.inlined = true, .sges = eight}, false), PostResult::posted);
  EXPECT_EQ(queue.post({}, false), PostResult::posted);
  EXPECT_EQ(queue.post({}, false), PostResult::queue_full);
  queue.retire();
  EXPECT_EQ(queue.post({}, false), PostResult::posted);
}

TEST(SendQueue, StagedRequestsAreSeenWhenTheyArePublished) {
  SendQueue queue{3, 1, 0};
  ASSERT_EQ(queue.post({.wr_id = 1}, false), PostResult::posted);
  ASSERT_EQ(queue.stage({.wr_id = 2}, false, 0), PostResult::posted);
  ASSERT_EQ(queue.stage({.wr_id = 3}, false, 1), PostResult::posted);
  EXPECT_EQ(queue.stage({.wr_id = 4}, false, 2), PostResult::queue_full);
  EXPECT_EQ(queue.tail(), 1u);
  queue.publish(2);
  ASSERT_EQ(queue.tail(), 3u);
  EXPECT_EQ(queue.at(1).request.wr_id, 2u);
  EXPECT_EQ(queue.at(2).request.wr_id, 3u);
  EXPECT_EQ(queue.at(2).receive, 2u);  // both before it take a receive
}

TEST(SendQueue, StagedRequestsThatAreNotPublishedLeaveNothingBehind) {
  SendQueue queue{2, 1, 0};
  ASSERT_EQ(queue.stage({.wr_id = 1}, false, 0), PostResult::posted);
  ASSERT_EQ(queue.post({.wr_id = 2}, false), PostResult::posted);
  EXPECT_EQ(queue.tail(), 1u);
  EXPECT_EQ(queue.at(0).request.wr_id, 2u);
  EXPECT_EQ(queue.at(0).receive, 0u);
}

}  // namespace
}  // namespace verbena::engine
