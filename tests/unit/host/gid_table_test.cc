#include "host/gid_table.h"

#include <gtest/gtest.h>

namespace verbena::host {
namespace {

const auto kA = IpAddress::v4({10, 0, 0, 1});
const auto kB = IpAddress::v4({10, 0, 0, 2});
const auto kC = IpAddress::v4({10, 0, 0, 3});
const IpAddress kHole{};
using Gids = std::vector<IpAddress>;

TEST(GidTables, NothingMovesWhenAnAddressGoes) {
  GidTables tables;
  EXPECT_EQ(tables.stable("d", {kA, kB}), (Gids{kA, kB}));
  EXPECT_EQ(tables.stable("d", {kB}), (Gids{kHole, kB}));
  EXPECT_EQ(tables.stable("d", {kB, kA}), (Gids{kA, kB}));
}

TEST(GidTables, NewAddressesGoToTheEnd) {
  GidTables tables;
  EXPECT_EQ(tables.stable("d", {kB}), (Gids{kB}));
  EXPECT_EQ(tables.stable("d", {kA, kB, kC}), (Gids{kB, kA, kC}));
  EXPECT_EQ(tables.stable("d", {kA}), (Gids{kHole, kA}));
}

TEST(GidTables, EachDeviceHasItsOwn) {
  GidTables tables;
  EXPECT_EQ(tables.stable("d", {kA}), (Gids{kA}));
  EXPECT_EQ(tables.stable("e", {kB, kA}), (Gids{kB, kA}));
}

}  // namespace
}  // namespace verbena::host
