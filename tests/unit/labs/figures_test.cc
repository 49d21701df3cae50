// What the labs' tables are made of.

#include <gtest/gtest.h>

#include <array>

#include "labs/bulk/sweep.h"
#include "labs/common/pattern.h"
#include "labs/common/percentile.h"

namespace {

TEST(Percentile, IsTheSmallestValueThatTheShareDoesNotExceed) {
  std::vector<double> values;
  for (int i = 1000; i > 0; --i) values.push_back(i);
  EXPECT_EQ(lab::percentile(values, 0.5), 500);
  EXPECT_EQ(lab::percentile(values, 0.99), 990);
  EXPECT_EQ(lab::percentile(values, 0.999), 999);
  EXPECT_EQ(lab::percentile(values, 1), 1000);
  EXPECT_EQ(lab::percentile({7}, 0.5), 7);
  EXPECT_EQ(lab::percentile({7}, 0.999), 7);
}

TEST(BulkSweep, HasNoShapeThatWouldNeverEmptyItsQueue) {
  const auto shapes =
      bulk::shapes_of({.chunks = {4096}, .depths = {1, 16}, .every = {1, 16}}, 8192);
  ASSERT_EQ(shapes.size(), 4u);  // (1, 1), (16, 1), (16, 16) and TCP
  for (const auto& shape : shapes) EXPECT_LE(shape.every, shape.depth);
  EXPECT_TRUE(shapes.back().is_tcp());
}

TEST(BulkSweep, ChunksAreNoLongerThanAllOfIt) {
  const auto shapes = bulk::shapes_of({.chunks = {4096, 65536}, .depths = {1}, .every = {1}}, 100);
  ASSERT_EQ(shapes.size(), 2u);  // the second chunk would be the first again
  EXPECT_EQ(shapes.front().chunk, 100u);
}

TEST(Pattern, FindsAnyByteThatIsNotOfTheSeed) {
  for (const std::size_t size : {1u, 7u, 8u, 9u, 100u}) {
    std::vector<std::byte> bytes(size);
    lab::fill_pattern(bytes, 5);
    EXPECT_EQ(lab::first_difference(bytes, 5), size);
    EXPECT_EQ(lab::first_difference(bytes, 6), 0u);
    for (std::size_t at = 0; at < size; ++at) {
      bytes[at] ^= std::byte{0x10};
      EXPECT_EQ(lab::first_difference(bytes, 5), at);
      bytes[at] ^= std::byte{0x10};
    }
  }
}

}  // namespace
