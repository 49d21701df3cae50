#include "base/bytes.h"

#include <gtest/gtest.h>

#include <array>

namespace verbena {
namespace {

constexpr std::array<std::uint8_t, 8> kBytes{0xf1, 0xe2, 0xd3, 0xc4, 0xb5, 0xa6, 0x97, 0x88};

TEST(Bytes, LoadsAreBigEndian) {
  EXPECT_EQ(load_be16(kBytes.data()), 0xf1e2u);
  EXPECT_EQ(load_be24(kBytes.data()), 0xf1'e2d3u);
  EXPECT_EQ(load_be32(kBytes.data()), 0xf1e2'd3c4u);
  EXPECT_EQ(load_be64(kBytes.data()), 0xf1e2'd3c4'b5a6'9788u);
}

TEST(Bytes, StoresMirrorLoadsAndTouchNothingElse) {
  std::array<std::uint8_t, 8> b{};
  store_be16(b.data(), 0xf1e2);
  EXPECT_EQ(b, (std::array<std::uint8_t, 8>{0xf1, 0xe2}));
  b = {};
  store_be24(b.data(), 0xf1'e2d3);
  EXPECT_EQ(b, (std::array<std::uint8_t, 8>{0xf1, 0xe2, 0xd3}));
  b = {};
  store_be32(b.data(), 0xf1e2'd3c4);
  EXPECT_EQ(b, (std::array<std::uint8_t, 8>{0xf1, 0xe2, 0xd3, 0xc4}));
  store_be64(b.data(), 0xf1e2'd3c4'b5a6'9788);
  EXPECT_EQ(b, kBytes);
}

}  // namespace
}  // namespace verbena
