#include "base/ip_address.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>

namespace verbena {
namespace {

TEST(IpAddress, PrintsWhatItParsed) {
  for (const std::string_view text :
       {"127.0.0.1", "10.77.0.3", "255.255.255.255", "0.0.0.0", "::", "::1", "fe80::1",
        "2001:db8::5054:ff:fe77:3", "ff02::1", "2001:db8:1:2:3:4:5:6"}) {
    const auto address = IpAddress::parse(text);
    ASSERT_TRUE(address.has_value()) << text;
    EXPECT_EQ(address->text(), text);
  }
}

TEST(IpAddress, RefusesWhatIsNoAddress) {
  for (const std::string_view text :
       {"", " ", "10.0.0", "10.0.0.256", "10.0.0.1 ", " 10.0.0.1", "10.0.0.1/24", "fe80::1%eth0",
        "1::2::3", "localhost", "12345::", "010.0.0.1x"}) {
    EXPECT_FALSE(IpAddress::parse(text).has_value()) << '"' << text << '"';
  }
}

TEST(IpAddress, RefusesTextBehindANul) {
  EXPECT_FALSE(IpAddress::parse(std::string_view{"10.0.0.1\0.evil", 14}).has_value());
}

TEST(IpAddress, MappedFormIsTheIpv4Address) {
  const auto mapped = IpAddress::parse("::ffff:10.0.0.1");
  ASSERT_TRUE(mapped.has_value());
  EXPECT_EQ(*mapped, IpAddress::v4({10, 0, 0, 1}));
  EXPECT_TRUE(mapped->is_v4());
  EXPECT_EQ(mapped->text(), "10.0.0.1");
  EXPECT_EQ(mapped->v4_bytes(), (std::array<std::uint8_t, 4>{10, 0, 0, 1}));
}

TEST(IpAddress, OnlyTheMappedPrefixIsIpv4) {
  EXPECT_FALSE(IpAddress{}.is_v4());
  EXPECT_FALSE(IpAddress::parse("::10.0.0.1")->is_v4());
  EXPECT_FALSE(IpAddress::parse("64:ff9b::10.0.0.1")->is_v4());
  EXPECT_FALSE(IpAddress::parse("::1")->is_v4());
}

TEST(IpAddress, LinkLocalIsFe80Slash10) {
  EXPECT_TRUE(IpAddress::parse("fe80::1")->is_link_local());
  EXPECT_TRUE(IpAddress::parse("febf::1")->is_link_local());
  EXPECT_FALSE(IpAddress::parse("fec0::1")->is_link_local());
  EXPECT_FALSE(IpAddress::parse("fe7f::1")->is_link_local());
  EXPECT_FALSE(IpAddress::parse("169.254.0.1")->is_link_local());
}

TEST(IpAddress, MulticastIs224Slash4AndFf00Slash8) {
  EXPECT_TRUE(IpAddress::parse("224.0.0.1")->is_multicast());
  EXPECT_TRUE(IpAddress::parse("239.255.255.255")->is_multicast());
  EXPECT_TRUE(IpAddress::parse("ff0e::1")->is_multicast());
  EXPECT_FALSE(IpAddress::parse("240.0.0.1")->is_multicast());
  EXPECT_FALSE(IpAddress::parse("fe80::1")->is_multicast());
}

TEST(IpAddress, AddressesOfOneLinkNeedAnInterface) {
  EXPECT_TRUE(IpAddress::parse("fe80::1")->needs_interface());
  EXPECT_TRUE(IpAddress::parse("ff01::1")->needs_interface());
  EXPECT_TRUE(IpAddress::parse("ff12::1")->needs_interface());
  EXPECT_FALSE(IpAddress::parse("ff0e::1")->needs_interface());
  EXPECT_FALSE(IpAddress::parse("224.0.0.1")->needs_interface());
  EXPECT_FALSE(IpAddress::parse("fd99::1")->needs_interface());
}

TEST(IpAddress, OrdersByBytes) {
  EXPECT_LT(*IpAddress::parse("10.0.0.1"), *IpAddress::parse("10.0.0.2"));
  EXPECT_LT(*IpAddress::parse("10.0.0.1"), *IpAddress::parse("fe80::1"));
}

}  // namespace
}  // namespace verbena
