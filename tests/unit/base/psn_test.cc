#include "base/psn.h"

#include <gtest/gtest.h>

namespace verbena {
namespace {

TEST(Psn, KeepsTwentyFourBits) {
  EXPECT_EQ(Psn{0x100'0001}.value(), 1u);
  EXPECT_EQ(Psn{0xffff'ffff}, Psn{0xff'ffff});
  EXPECT_EQ(Psn{}.value(), 0u);
}

TEST(Psn, StepsAcrossTheWrap) {
  EXPECT_EQ(Psn{0xff'ffff}.next(), Psn{0});
  EXPECT_EQ(Psn{0}.previous(), Psn{0xff'ffff});
  EXPECT_EQ(Psn{0xff'fffe} + 5, Psn{3});
  EXPECT_EQ(Psn{7} + 0x100'0000, Psn{7});
}

TEST(Psn, DistanceIsSigned) {
  EXPECT_EQ(distance(Psn{5}, Psn{5}), 0);
  EXPECT_EQ(distance(Psn{6}, Psn{5}), 1);
  EXPECT_EQ(distance(Psn{5}, Psn{6}), -1);
  EXPECT_EQ(distance(Psn{2}, Psn{0xff'fffe}), 4);
  EXPECT_EQ(distance(Psn{0xff'fffe}, Psn{2}), -4);
}

TEST(Psn, HalfTheCircleIsAheadAndHalfBehind) {
  for (const std::uint32_t base : {0u, 1u, 0x7f'ffffu, 0x80'0000u, 0xff'ffffu}) {
    EXPECT_EQ(distance(Psn{base} + 0x7f'ffff, Psn{base}), 0x7f'ffff);
    EXPECT_EQ(distance(Psn{base} + 0x80'0000, Psn{base}), -0x80'0000);
    EXPECT_EQ(distance(Psn{base} + 0x80'0001, Psn{base}), -0x7f'ffff);
  }
}

}  // namespace
}  // namespace verbena
