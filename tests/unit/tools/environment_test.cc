#include <gtest/gtest.h>

#include "tools/verbena/preload.h"

namespace verbena::tool {
namespace {

TEST(WithPreload, PutsUsFirstAndKeepsTheOthers) {
  EXPECT_EQ(with_preload("/us.so", ""), "/us.so");
  EXPECT_EQ(with_preload("/us.so", "/a.so:/b.so"), "/us.so:/a.so:/b.so");
  EXPECT_EQ(with_preload("/us.so", "/a.so /b.so"), "/us.so:/a.so:/b.so");
  EXPECT_EQ(with_preload("/us.so", "/a.so:/us.so::"), "/us.so:/a.so");
}

TEST(WithAsanOption, IsAppendedOnce) {
  EXPECT_EQ(with_asan_option(""), "verify_asan_link_order=0");
  EXPECT_EQ(with_asan_option("a=1"), "a=1:verify_asan_link_order=0");
  EXPECT_EQ(with_asan_option("verify_asan_link_order=0:a=1"), "verify_asan_link_order=0:a=1");
}

}  // namespace
}  // namespace verbena::tool
