#include "host/reachability/multicast_group.h"

#include <gtest/gtest.h>

namespace verbena::host {
namespace {

IpAddress ip(const char* text) { return *IpAddress::parse(text); }

TEST(MulticastGroup, OfAnIpv4GidIsTheIpv4Address) {
  EXPECT_EQ(group_of(ip("239.1.2.3")), ip("239.1.2.3"));
  EXPECT_EQ(group_of(ip("ff0e::ffff:239.1.2.3")), ip("239.1.2.3"));
}

TEST(MulticastGroup, OfAnIpv6GidIsItself) {
  EXPECT_EQ(group_of(ip("ff0e::1")), ip("ff0e::1"));
  EXPECT_EQ(group_of(ip("ff0e::ffff:10.1.2.3")), ip("ff0e::ffff:10.1.2.3"));
}

TEST(MulticastGroup, IsNoUnicastAddress) {
  EXPECT_FALSE(group_of(ip("10.1.2.3")).has_value());
  EXPECT_FALSE(group_of(ip("fe80::1")).has_value());
}

}  // namespace
}  // namespace verbena::host
