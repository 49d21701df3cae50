#include "memory/null_memory.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace verbena::memory {
namespace {

TEST(NullMemory, ReadsAsZeros) {
  NullMemory memory;
  std::vector<std::uint8_t> frames(400, 7);
  ASSERT_TRUE(memory.gather_parts(~std::uint64_t{0} - 10, {std::span{frames}.first(100), 116, 3}));
  for (const std::size_t at : {0u, 99u, 116u, 331u}) EXPECT_EQ(frames[at], 0) << at;
  EXPECT_EQ(frames[100], 7) << "between the parts";
}

TEST(NullMemory, KeepsNothing) {
  NullMemory memory;
  const std::array<std::uint8_t, 3> bytes{1, 2, 3};
  EXPECT_TRUE(memory.scatter(bytes, std::array{Segment{8, 3, &memory}}));
  EXPECT_TRUE(memory.scatter_all(std::array{Copy{bytes, 8}}));
  EXPECT_FALSE(memory.pending());
}

TEST(NullMemory, HasNoWordsForAtomics) {
  NullMemory memory;
  EXPECT_FALSE(memory.fetch_add(8, 1));
  EXPECT_FALSE(memory.compare_swap(8, 0, 1));
  EXPECT_FALSE(memory.store(8, 1));
}

}  // namespace
}  // namespace verbena::memory
