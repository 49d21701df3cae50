#include "base/numbers.h"

#include <gtest/gtest.h>

namespace verbena {
namespace {

TEST(Qpn, KeepsTwentyFourBits) {
  EXPECT_EQ(Qpn{0x0100'0011}.value(), 0x11u);
  EXPECT_EQ(Qpn{0xffff'ffff}, Qpn{Qpn::kMask});
}

TEST(Qpn, UpperBitsAreTheSlot) {
  EXPECT_EQ(Qpn{0}.slot(), 0u);
  EXPECT_EQ(Qpn{(1u << Qpn::kIndexBits) - 1}.slot(), 0u);
  EXPECT_EQ(Qpn{1u << Qpn::kIndexBits}.slot(), 1u);
  EXPECT_EQ(Qpn{Qpn::kMask}.slot(), Qpn::kSlots - 1);
}

TEST(Key, IsThirtyTwoBits) {
  EXPECT_EQ(Key{0xffff'ffff}.value(), 0xffff'ffffu);
  EXPECT_NE(Key{1}, Key{0x0100'0001});
}

}  // namespace
}  // namespace verbena
