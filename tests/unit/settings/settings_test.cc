#include "settings/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace verbena::settings {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::string problem_with(std::string_view name, std::string_view value) {
  Settings s;
  const auto done = set(s, name, value);
  return done ? "" : done.error().message;
}

TEST(Settings, ListTheValidOnesForAnUnknownName) {
  EXPECT_THAT(problem_with("VERBENA_LGO", "warn"),
              AllOf(HasSubstr("VERBENA_LGO"), HasSubstr("VERBENA_LOG="), HasSubstr("VERBENA_ONLY="),
                    HasSubstr("VERBENA_FAULTS=")));
}

TEST(Settings, ListTheValidValuesForAMalformedOne) {
  EXPECT_THAT(problem_with("VERBENA_LOG", "loud"),
              AllOf(HasSubstr("VERBENA_LOG"), HasSubstr("\"loud\""),
                    HasSubstr("off, error, warn, info or debug")));
  EXPECT_THAT(problem_with("VERBENA_FAULTS", "drop=7"),
              AllOf(HasSubstr("VERBENA_FAULTS"), HasSubstr("\"drop=7\"")));
  EXPECT_EQ(problem_with("VERBENA_LOG", "warn"), "");
  EXPECT_THAT(
      problem_with("VERBENA_WIRE", "tcp"),
      AllOf(HasSubstr("VERBENA_WIRE"), HasSubstr("\"tcp\""), HasSubstr("use auto, shm or udp")));
  for (const char* wire : {"auto", "shm", "udp"}) {
    EXPECT_EQ(problem_with("VERBENA_WIRE", wire), "");
  }
}

TEST(Settings, OnlyOursAreReadFromAnEnvironment) {
  const std::array<const char*, 6> good{
      "PATH=/bin",         "VERBENA_ONLY=1",         "XVERBENA_Y=2",
      "VERBENA_PCAP=/a b", "VERBENA_FAULTS=drop=1%", nullptr};
  const Reading reading = read_environment(good.data());
  EXPECT_THAT(reading.problems, IsEmpty());
  EXPECT_TRUE(reading.settings.only);
  EXPECT_EQ(reading.settings.pcap, "/a b");
  ASSERT_TRUE(reading.settings.faults);
  EXPECT_DOUBLE_EQ(reading.settings.faults->drop, 0.01);

  const std::array<const char*, 4> empty{
      "VERBENA_ONLY=", "VERBENA_FAULTS=", "VERBENA_STATS=", nullptr};
  EXPECT_THAT(read_environment(empty.data()).problems, IsEmpty());

  const std::array<const char*, 4> bad{"VERBENA_ONLY=yes", "VERBENA_X=1", "VERBENA_LOG=info",
                                       nullptr};
  EXPECT_THAT(read_environment(bad.data()).problems, SizeIs(2));
}

TEST(Settings, CaptureAndFaultsNeedTheNetwork) {
  const std::array captured{"VERBENA_WIRE=shm", "VERBENA_PCAP=x",
                            static_cast<const char*>(nullptr)};
  const std::array faulty{"VERBENA_WIRE=shm", "VERBENA_FAULTS=drop=1%",
                          static_cast<const char*>(nullptr)};
  const std::array either{"VERBENA_WIRE=auto", "VERBENA_PCAP=x", "VERBENA_FAULTS=drop=1%",
                          static_cast<const char*>(nullptr)};
  for (const auto* environment : {&captured, &faulty}) {
    const auto problems = read_environment(environment->data()).problems;
    ASSERT_EQ(problems.size(), 1u);
    EXPECT_NE(problems[0].find("capture and faults take the network"), std::string::npos);
  }
  EXPECT_TRUE(read_environment(either.data()).problems.empty());
}

}  // namespace
}  // namespace verbena::settings
