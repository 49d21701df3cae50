#include "host/devices/link_rate.h"

#include <gtest/gtest.h>

namespace verbena::host {
namespace {

TEST(LinkRate, IsTheOneOfAHardwareNic) {
  EXPECT_EQ(link_rate(1'000).text(), "2.5 Gb/sec (1X SDR)");
  EXPECT_EQ(link_rate(10'000).text(), "10 Gb/sec (1X FDR10)");
  EXPECT_EQ(link_rate(25'000).text(), "25 Gb/sec (1X EDR)");
  EXPECT_EQ(link_rate(40'000).text(), "40 Gb/sec (4X FDR10)");
  EXPECT_EQ(link_rate(50'000).text(), "50 Gb/sec (2X EDR)");
  EXPECT_EQ(link_rate(100'000).text(), "100 Gb/sec (4X EDR)");
  EXPECT_EQ(link_rate(200'000).text(), "200 Gb/sec (4X HDR)");
  EXPECT_EQ(link_rate(400'000).text(), "400 Gb/sec (4X NDR)");
}

TEST(LinkRate, HasTheCodesOfThePortAttributes) {
  EXPECT_EQ(link_rate(100'000).width, 2);
  EXPECT_EQ(link_rate(100'000).speed, 32);
  EXPECT_EQ(link_rate(50'000).width, 16);
}

TEST(LinkRate, SlowAndUnknownLinksHaveOne) {
  EXPECT_EQ(link_rate(10).text(), link_rate(1'000).text());
  EXPECT_EQ(link_rate(0).text(), link_rate(10'000).text());
  EXPECT_EQ(link_rate(link_speed("no such")).text(), link_rate(0).text());
}

}  // namespace
}  // namespace verbena::host
