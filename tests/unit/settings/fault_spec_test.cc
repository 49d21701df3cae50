#include "settings/fault_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbena::settings {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

std::string complaint(std::string_view text) {
  const auto parsed = parse_fault_spec(text);
  return parsed ? "" : parsed.error().message;
}

TEST(FaultSpec, EverythingAtOnce) {
  const auto spec = parse_fault_spec(
      "drop=1%,dup=2%,reorder=0.03,corrupt=0.1%,delay=2ms~0.5ms,rate=1.5Gbit,seed=7");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(*spec, (FaultSpec{.drop = 0.01,
                              .duplicate = 0.02,
                              .reorder = 0.03,
                              .corrupt = 0.001,
                              .delay = 2ms,
                              .jitter = 500us,
                              .rate = 1.5e9,
                              .seed = 7}));
}

TEST(FaultSpec, OnePartAlone) {
  EXPECT_EQ(parse_fault_spec("drop=0.5")->drop, 0.5);
  EXPECT_EQ(parse_fault_spec("drop=100%")->drop, 1);
  EXPECT_EQ(parse_fault_spec("dup=1")->duplicate, 1);
  EXPECT_EQ(parse_fault_spec("duplicate=1")->duplicate, 1);
  EXPECT_EQ(parse_fault_spec("delay=50us")->delay, Duration{50us});
  EXPECT_EQ(parse_fault_spec("delay=1s~1s")->jitter, Duration{1s});
  EXPECT_EQ(parse_fault_spec("rate=100Mbit")->rate, 1e8);
  EXPECT_EQ(parse_fault_spec("seed=0")->seed, 0u);
  EXPECT_EQ(parse_fault_spec("drop=0")->seed, FaultSpec{}.seed);
}

TEST(FaultSpec, TheComplaintNamesThePartAndItsForm) {
  EXPECT_THAT(complaint("drop=1%,delay=2"),
              AllOf(HasSubstr("\"delay=2\""), HasSubstr("2ms~0.5ms")));
  EXPECT_THAT(complaint("drop=5"), AllOf(HasSubstr("\"drop=5\""), HasSubstr("0% to 100%")));
  EXPECT_THAT(complaint("rate=fast"), AllOf(HasSubstr("\"rate=fast\""), HasSubstr("Gbit")));
  EXPECT_THAT(complaint("seed=x"), AllOf(HasSubstr("\"seed=x\""), HasSubstr("whole number")));
  EXPECT_THAT(complaint("lose=1%"),
              AllOf(HasSubstr("\"lose=1%\""), HasSubstr("drop, dup, reorder")));
  EXPECT_THAT(complaint("drop=1%,drop=2%"), AllOf(HasSubstr("\"drop=2%\""), HasSubstr("twice")));
}

class BadSpec : public testing::TestWithParam<const char*> {};

TEST_P(BadSpec, IsRefused) { EXPECT_NE(complaint(GetParam()), ""); }

INSTANTIATE_TEST_SUITE_P(FaultSpec, BadSpec,
                         testing::Values("", ",", "drop", "drop=", "drop=%", "drop=-1%", "drop=-0",
                                         "drop=nan", "drop=inf", "drop=1e-2", "drop=101%",
                                         "drop=1.01", "drop=1%%", "drop= 1%", "drop=1%,", "=1",
                                         "delay=2m", "delay=61s", "delay=1ms~2ms", "delay=1ms~",
                                         "delay=~1ms", "delay=-1ms", "rate=0bit", "rate=1",
                                         "rate=2000Gbit", "seed=-1", "seed=1.5",
                                         "seed=18446744073709551616", "dup=1%,dup=1%",
                                         "dup=1%,duplicate=1%"));

}  // namespace
}  // namespace verbena::settings
