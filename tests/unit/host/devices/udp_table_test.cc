#include "host/devices/udp_table.h"

#include <gtest/gtest.h>

namespace verbena::host {
namespace {

// As Linux 6.1 prints it on x86_64: each word of an address is a little-endian number.
constexpr std::string_view kUdp =
    "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode ref pointer drops\n"
    "  350: 0100007F:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 "
    "26013 2 0000000000000000 0\n"
    " 1402: 00000000:0044 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 "
    "17423 2 0000000000000000 0\n"
    "garbage\n"
    "  350: 0100007F:12B7\n";
constexpr std::string_view kUdp6 =
    "  sl  local_address                         remote_address                        st tx_queue "
    "rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n"
    " 4444: 000080FE00000000FF005450C2A9FAFE:12B7 00000000000000000000000000000000:0000 07 "
    "00000000:00000000 00:00000000 00000000     0        0 30077 2 0000000000000000 0\n"
    " 4445: 00000000000000000000000000000000:12B7 00000000000000000000000000000000:0000 07 "
    "00000000:00000000 00:00000000 00000000     0        0 30078 2 0000000000000000 0\n";

IpAddress address(std::string_view text) { return IpAddress::parse(text).value(); }

TEST(UdpTable, SocketsOfBothFamilies) {
  EXPECT_EQ(parse_udp_table(kUdp),
            (std::vector<UdpSocketEntry>{{address("127.0.0.1"), 4791, 1000, 26013},
                                         {address("0.0.0.0"), 68, 0, 17423}}));
  EXPECT_EQ(parse_udp_table(kUdp6),
            (std::vector<UdpSocketEntry>{{address("fe80::5054:ff:fefa:a9c2"), 4791, 0, 30077},
                                         {address("::"), 4791, 0, 30078}}));
}

TEST(UdpTable, WhoIsInTheWayOfWhom) {
  const auto in_the_way = [](std::string_view socket, std::string_view local) {
    return overlaps({.address = address(socket)}, address(local));
  };
  EXPECT_TRUE(in_the_way("127.0.0.1", "127.0.0.1"));
  EXPECT_FALSE(in_the_way("127.0.0.1", "10.0.0.1"));
  EXPECT_TRUE(in_the_way("0.0.0.0", "10.0.0.1"));
  EXPECT_FALSE(in_the_way("0.0.0.0", "::1"));
  EXPECT_TRUE(in_the_way("::", "::1"));
  EXPECT_TRUE(in_the_way("::", "10.0.0.1"));  // unless it is for IPv6 only
}

}  // namespace
}  // namespace verbena::host
