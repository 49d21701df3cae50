#include "engine/key_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace verbena::engine {
namespace {

/// One of few keys with equal low bits: collisions, and holes in probe chains.
Key colliding(std::mt19937& random) {
  return Key{static_cast<std::uint32_t>((random() % 64) << 8 | (random() % 3) | 1u << 20)};
}

TEST(KeyTable, AgreesWithAMapUnderRandomUse) {
  std::mt19937 random{7};
  KeyTable table;
  std::map<std::uint32_t, std::uint64_t> model;
  for (int i = 0; i < 200'000; ++i) {
    const Key key = colliding(random);
    if (random() % 2 == 0) {
      if (!model.contains(key.value())) {
        table.insert({.key = key, .length = static_cast<std::uint64_t>(i)});
        model[key.value()] = static_cast<std::uint64_t>(i);
      }
    } else {
      EXPECT_EQ(table.erase(key), model.erase(key.value()) == 1);
    }
    const Key probe = colliding(random);
    const MemoryRegion* found = table.find(probe);
    const auto it = model.find(probe.value());
    ASSERT_EQ(found != nullptr, it != model.end());
    if (found != nullptr) {
      ASSERT_EQ(found->length, it->second);
    }
    ASSERT_EQ(table.size(), model.size());
  }
}

TEST(KeyTable, KeyZeroNamesNothing) { EXPECT_EQ(KeyTable{}.find(Key{0}), nullptr); }

TEST(MemoryRegion, BoundsDoNotWrap) {
  const MemoryRegion r{.iova = 0x1000, .address = 0x9000, .length = 0x100};
  EXPECT_TRUE(r.contains(0x1000, 0x100));
  EXPECT_TRUE(r.contains(0x1100, 0));
  EXPECT_FALSE(r.contains(0x1001, 0x100));
  EXPECT_FALSE(r.contains(0xfff, 1));
  EXPECT_FALSE(r.contains(0x1010, ~std::uint64_t{0}));
  EXPECT_FALSE(r.contains(~std::uint64_t{0}, 0x2000));
  EXPECT_EQ(r.translate(0x1010), 0x9010u);
  const MemoryRegion top{.iova = ~std::uint64_t{0} - 15, .length = 16};
  EXPECT_TRUE(top.contains(~std::uint64_t{0} - 15, 16));
  EXPECT_FALSE(top.contains(~std::uint64_t{0} - 15, 17));
}

}  // namespace
}  // namespace verbena::engine
