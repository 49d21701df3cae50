#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tools/verbena/preload.h"
#include "tools/verbena/variables.h"

namespace verbena::tool {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

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

TEST(Variables, ListTheValidOnesForAnUnknownName) {
  EXPECT_THAT(
      problem_with("VERBENA_LGO", "warn").value(),
      AllOf(HasSubstr("VERBENA_LGO"), HasSubstr("VERBENA_LOG="), HasSubstr("VERBENA_ONLY=")));
}

TEST(Variables, ListTheValidValuesForAMalformedOne) {
  EXPECT_THAT(problem_with("VERBENA_LOG", "loud").value(),
              AllOf(HasSubstr("\"loud\""), HasSubstr("off, error, warn, info, debug")));
  EXPECT_EQ(problem_with("VERBENA_LOG", "warn"), std::nullopt);
}

TEST(Variables, OnlyOursAreCheckedInAnEnvironment) {
  const std::array<const char*, 4> good{"PATH=/bin", "VERBENA_ONLY=1", "XVERBENA_Y=2", nullptr};
  EXPECT_THAT(check_environment(good.data()), IsEmpty());
  const std::array<const char*, 4> bad{"VERBENA_ONLY=yes", "VERBENA_X=1", "VERBENA_LOG=info",
                                       nullptr};
  EXPECT_THAT(check_environment(bad.data()), SizeIs(2));
}

}  // namespace
}  // namespace verbena::tool
