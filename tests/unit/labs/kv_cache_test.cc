// Lab kv-cache: which blocks share a slot, which one goes, and what a reader makes of it.

#include <gtest/gtest.h>

#include <vector>

#include "labs/kv-cache/block.h"
#include "labs/kv-cache/block_pool.h"

namespace {

using Wanted = std::vector<std::uint64_t>;

/// The slot of a block that must be there, or must get one.
std::uint32_t slot_of(BlockPool& pool, std::uint64_t hash, bool found) {
  const auto taken = pool.take(Wanted{hash});
  EXPECT_TRUE(taken);
  EXPECT_EQ(taken->front().found, found);
  return taken->front().place.slot;
}

TEST(Prompts, ThatBeginAlikeHaveTheSameFirstBlocks) {
  const Hashes one = hashes_of(0), alike = hashes_of(kSystemPrompts), other = hashes_of(1);
  for (std::uint32_t i = 0; i < kPromptBlocks; ++i) {
    EXPECT_EQ(one.at(i) == alike.at(i), i < kPrefixBlocks) << i;
    EXPECT_NE(one.at(i), other.at(i)) << i;
  }
}

TEST(BlockPool, SharesABlockAndKeepsItWhenNobodyUsesIt) {
  BlockPool pool{2};
  const std::uint32_t slot = slot_of(pool, 7, false);
  EXPECT_EQ(slot_of(pool, 7, true), slot);
  pool.give_back(slot);
  pool.give_back(slot);
  EXPECT_EQ(slot_of(pool, 7, true), slot);
}

TEST(BlockPool, EvictsTheUnusedBlockThatWasUsedLeastRecently) {
  BlockPool pool{3};
  for (const std::uint64_t hash : {1u, 2u, 3u}) pool.give_back(slot_of(pool, hash, false));
  pool.give_back(slot_of(pool, 1, true));
  const std::uint32_t of_second = pool.take(Wanted{2})->front().place.slot;  // stays in use
  const auto fourth = pool.take(Wanted{4});
  ASSERT_TRUE(fourth);
  EXPECT_NE(fourth->front().place.slot, of_second);
  EXPECT_EQ(fourth->front().place.generation, 2u);
  EXPECT_TRUE(pool.take(Wanted{1})->front().found);
  EXPECT_FALSE(pool.take(Wanted{3}));  // it has gone, and all slots are in use
}

TEST(BlockPool, TakesAllBlocksOrNone) {
  BlockPool pool{3};
  const std::uint32_t slot = slot_of(pool, 1, false);
  EXPECT_FALSE(pool.take(Wanted{1, 2, 3, 4}));
  pool.give_back(slot);
  const auto taken = pool.take(Wanted{2, 3, 1});  // what is there doesn't go for the others
  ASSERT_TRUE(taken);
  EXPECT_TRUE(taken->back().found);
}

TEST(Block, IsWholeOrReusedOrTorn) {
  const Tag mine{.hash = 5, .number = 2, .generation = 1};
  const Tag next{.hash = 6, .number = 0, .generation = 2};
  for (const std::size_t size : {1u, 8u, 100u}) {
    std::vector<std::byte> slot(sizeof(Tag) + size), other(slot.size());
    compute_block(slot, mine);
    EXPECT_EQ(inspect(slot, mine), Found::whole);
    EXPECT_EQ(inspect(slot, {.hash = 5, .number = 2, .generation = 2}), Found::reused);
    compute_block(other, next);
    slot.back() = other.back();
    EXPECT_EQ(inspect(slot, mine), Found::torn);
    compute_block(slot, next);
    EXPECT_EQ(inspect(slot, mine), Found::reused);
  }
}

TEST(Slot, HoldsTagAndBlockInWholeCacheLines) {
  EXPECT_EQ(slot_size(1), 64u);
  EXPECT_EQ(slot_size(48), 64u);
  EXPECT_EQ(slot_size(49), 128u);
}

}  // namespace
