#include "host/devices/gid_table.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace verbena::host {
namespace {

const auto kA = IpAddress::v4({10, 0, 0, 1});
const auto kB = IpAddress::v4({10, 0, 0, 2});
const auto kC = IpAddress::v4({10, 0, 0, 3});
const IpAddress kHole{};
using Gids = std::vector<IpAddress>;

/// The entries up to the last that is not empty; behind it, the table has nothing but holes.
Gids used(Gids table) {
  EXPECT_EQ(table.size(), GidTables::kLength);
  while (!table.empty() && table.back() == kHole) table.pop_back();
  return table;
}

TEST(GidTables, NothingMovesWhenAnAddressGoes) {
  GidTables tables;
  EXPECT_EQ(used(tables.stable("d", {kA, kB})), (Gids{kA, kB}));
  EXPECT_EQ(used(tables.stable("d", {kB})), (Gids{kHole, kB}));
  EXPECT_EQ(used(tables.stable("d", {kB, kA})), (Gids{kA, kB}));
}

TEST(GidTables, NewAddressesGoToTheEnd) {
  GidTables tables;
  EXPECT_EQ(used(tables.stable("d", {kB})), (Gids{kB}));
  EXPECT_EQ(used(tables.stable("d", {kA, kB, kC})), (Gids{kB, kA, kC}));
  EXPECT_EQ(used(tables.stable("d", {kA})), (Gids{kHole, kA}));
}

TEST(GidTables, AddressesThatChangeWithoutEndFillHoles) {
  GidTables tables;
  for (std::uint16_t i = 0; i < 1000; ++i) {
    const auto temporary =
        IpAddress::v4({10, 1, static_cast<std::uint8_t>(i >> 8), static_cast<std::uint8_t>(i)});
    const auto table = tables.stable("d", {kA, temporary});
    ASSERT_LE(used(table).size(), GidTables::kRoomy);
    EXPECT_EQ(table[0], kA) << "what stays doesn't move";
    EXPECT_EQ(std::count(table.begin(), table.end(), temporary), 1);
  }
  // More than that at once: more of the table is in use.
  Gids many;
  for (std::uint8_t i = 0; i < 100; ++i) many.push_back(IpAddress::v4({10, 2, 0, i}));
  const auto table = tables.stable("d", many);
  for (const auto& a : many) EXPECT_EQ(std::count(table.begin(), table.end(), a), 1);
  EXPECT_EQ(used(table).size(), 100u);
}

TEST(GidTables, AddressesBeyondTheLengthAreLeftOut) {
  GidTables tables;
  Gids many;
  for (std::size_t i = 0; i < GidTables::kLength + 5; ++i) {
    many.push_back(IpAddress::v4({10, 3, 0, static_cast<std::uint8_t>(i)}));
  }
  const auto table = used(tables.stable("d", many));
  EXPECT_EQ(table, (Gids{many.begin(), many.begin() + GidTables::kLength}));
  // One goes: a place for one of those that had none.
  many.erase(many.begin());
  EXPECT_EQ(used(tables.stable("d", many)).front(), many[GidTables::kLength - 1]);
}

TEST(GidTables, EachDeviceHasItsOwn) {
  GidTables tables;
  EXPECT_EQ(used(tables.stable("d", {kA})), (Gids{kA}));
  EXPECT_EQ(used(tables.stable("e", {kB, kA})), (Gids{kB, kA}));
}

}  // namespace
}  // namespace verbena::host
