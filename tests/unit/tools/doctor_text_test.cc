#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/doctor/text.h"

namespace verbena::doctor {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(DoctorText, NumbersOfSmallFiles) {
  EXPECT_EQ(number_in("212992\n"), 212992);
  EXPECT_EQ(number_in("-1"), -1);
  EXPECT_EQ(number_in(""), std::nullopt);
  EXPECT_EQ(number_in("4096 131072 6291456\n"), std::nullopt);
  EXPECT_EQ(number_in("99999999999999999999"), std::nullopt);
}

TEST(DoctorText, FieldsOfAStatusFile) {
  constexpr auto kStatus = "Name:\tcat\nSeccomp:\t2\nSeccomp_filters:\t1\nEmpty:\n";
  EXPECT_EQ(field_of(kStatus, "Seccomp"), "2");
  EXPECT_EQ(field_of(kStatus, "Seccomp_filters"), "1");
  EXPECT_EQ(field_of(kStatus, "Empty"), "");
  EXPECT_EQ(field_of(kStatus, "Nam"), std::nullopt);
}

TEST(DoctorText, NamesOfModules) {
  EXPECT_THAT(modules_in("rdma_rxe 123 0 - Live 0x0\nib_core 1 2 rdma_rxe,ib_uverbs, Live 0x0\n"),
              ElementsAre("ib_core", "rdma_rxe"));
  EXPECT_THAT(modules_in(""), IsEmpty());
}

TEST(DoctorText, CommandsBetweenBackticks) {
  EXPECT_THAT(commands_in("it is down: `ip link set lo up`, or `a`"),
              ElementsAre("ip link set lo up", "a"));
  EXPECT_THAT(commands_in("no `end"), IsEmpty());
}

TEST(DoctorText, ListsAndSizes) {
  EXPECT_EQ(listed({}), "");
  EXPECT_EQ(listed({"a"}), "a");
  EXPECT_EQ(listed({"a", "b", "c"}), "a, b and c");
  EXPECT_EQ(bytes_text(4 << 20), "4 MiB");
  EXPECT_EQ(bytes_text(212992), "208 KiB");
  EXPECT_EQ(bytes_text(1000), "1000 bytes");
}

}  // namespace
}  // namespace verbena::doctor
