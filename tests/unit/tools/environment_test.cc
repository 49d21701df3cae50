#include "tools/verbena/environment.h"

#include <gtest/gtest.h>

#include "tools/verbena/preload.h"

namespace verbena::tool {
namespace {

TEST(WithPreload, PutsUsFirstAndKeepsTheOthers) {
  EXPECT_EQ(with_preload("/us.so", ""), "/us.so");
  EXPECT_EQ(with_preload("/us.so", "/a.so:/b.so"), "/us.so:/a.so:/b.so");
  EXPECT_EQ(with_preload("/us.so", "/a.so /b.so"), "/us.so:/a.so:/b.so");
  EXPECT_EQ(with_preload("/us.so", "/a.so:/us.so::"), "/us.so:/a.so");
  EXPECT_EQ(with_preload("/us.so:/cm.so", "/a.so /cm.so:/us.so"), "/us.so:/cm.so:/a.so");
}

TEST(WithAsanOption, IsAppendedOnce) {
  EXPECT_EQ(with_asan_option(""), "verify_asan_link_order=0");
  EXPECT_EQ(with_asan_option("a=1"), "a=1:verify_asan_link_order=0");
  EXPECT_EQ(with_asan_option("verify_asan_link_order=0:a=1"), "verify_asan_link_order=0:a=1");
}

TEST(FormatEnvironment, EachReaderHasRulesOfItsOwn) {
  const std::vector<EnvironmentEntry> entries{{"A", "/x"}, {"B", R"(1% it's "so" \ $HOME)"}};
  EXPECT_EQ(format_environment(entries, EnvironmentFormat::shell),
            "export A=/x\nexport B='1% it'\\''s \"so\" \\ $HOME'\n");
  EXPECT_EQ(format_environment(entries, EnvironmentFormat::docker),
            "A=/x\nB=1% it's \"so\" \\ $HOME\n");
  EXPECT_EQ(format_environment(entries, EnvironmentFormat::github),
            "A=/x\nB=1% it's \"so\" \\ $HOME\n");
  EXPECT_EQ(format_environment(entries, EnvironmentFormat::systemd),
            "Environment=\"A=/x\"\nEnvironment=\"B=1%% it's \\\"so\\\" \\\\ $HOME\"\n");
}

TEST(EnvironmentFormat, HasFourNames) {
  EXPECT_EQ(environment_format("systemd"), EnvironmentFormat::systemd);
  EXPECT_EQ(environment_format("csh"), std::nullopt);
}

}  // namespace
}  // namespace verbena::tool
