#include "packet/grh.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "base/bytes.h"

namespace verbena::packet {
namespace {

constexpr std::size_t kIpv4Offset = 20;

Datagram datagram(IpAddress source, IpAddress destination, std::span<const std::uint8_t> bytes) {
  return {.source = source,
          .destination = destination,
          .source_port = 0xc000,
          .traffic_class = 0,
          .hop_limit = 64,
          .bytes = bytes};
}

/// RFC 791: the sum over a right header, its checksum included, is all ones.
std::uint32_t sum_of(std::span<const std::uint8_t> header) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < header.size(); i += 2) sum += load_be16(&header[i]);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

TEST(Grh, OfIpv4IsItsHeaderBehindZeros) {
  const std::vector<std::uint8_t> bytes(124);
  const Grh grh =
      grh_of(datagram(IpAddress::v4({10, 77, 0, 3}), IpAddress::v4({10, 77, 0, 2}), bytes));
  // The header of a recorded SEND of 100 bytes, which had the identification 0x798a and the
  // checksum 0xac2c.
  const Grh expected{0,  0,  0, 0, 0,    0,  0, 0,    0, 0, 0,    0, 0,  0,  0,    0,
                     0,  0,  0, 0, 0x45, 0,  0, 0x98, 0, 0, 0x40, 0, 64, 17, 0x25, 0xb7,  //
                     10, 77, 0, 3, 10,   77, 0, 2};
  EXPECT_EQ(grh, expected);
}

TEST(Grh, OfIpv6IsItsHeader) {
  const std::vector<std::uint8_t> bytes(124);
  Datagram d = datagram(*IpAddress::parse("fe80::5054:ff:fe77:3"),
                        *IpAddress::parse("fe80::5054:ff:fe77:2"), bytes);
  d.traffic_class = 0xb9;
  const Grh expected{0x6b, 0x90, 0, 0, 0, 132, 17, 64,                                         //
                     0xfe, 0x80, 0, 0, 0, 0,   0,  0,  0x50, 0x54, 0, 0xff, 0xfe, 0x77, 0, 3,  //
                     0xfe, 0x80, 0, 0, 0, 0,   0,  0,  0x50, 0x54, 0, 0xff, 0xfe, 0x77, 0, 2};
  EXPECT_EQ(grh_of(d), expected);
}

TEST(Grh, ChecksumIsRight) {
  std::mt19937 generator{9};
  const auto byte = [&generator] { return static_cast<std::uint8_t>(generator()); };
  const std::vector<std::uint8_t> bytes(65'507);
  for (int i = 0; i < 10'000; ++i) {
    Datagram d = datagram(IpAddress::v4({byte(), byte(), byte(), byte()}),
                          IpAddress::v4({byte(), byte(), byte(), byte()}),
                          std::span{bytes}.first(generator() % (bytes.size() + 1)));
    d.traffic_class = byte();
    d.hop_limit = byte();
    const Grh grh = grh_of(d);
    const auto header = std::span{grh}.subspan(kIpv4Offset);
    ASSERT_EQ(sum_of(header), 0xffffu);
    ASSERT_EQ(header[1], d.traffic_class);
    ASSERT_EQ(header[8], d.hop_limit);
    ASSERT_EQ(load_be16(&header[2]), 20 + 8 + d.bytes.size());
    ASSERT_TRUE(
        std::all_of(grh.begin(), grh.begin() + kIpv4Offset, [](std::uint8_t b) { return b == 0; }));
  }
}

/// Sums that carry twice: all ones everywhere.
TEST(Grh, ChecksumOfLargeSums) {
  const std::vector<std::uint8_t> bytes(65'507);
  Datagram d =
      datagram(IpAddress::v4({255, 255, 255, 255}), IpAddress::v4({255, 255, 255, 255}), bytes);
  d.traffic_class = d.hop_limit = 0xff;
  const Grh grh = grh_of(d);
  EXPECT_EQ(sum_of(std::span{grh}.subspan(kIpv4Offset)), 0xffffu);
}

TEST(Grh, OfIpv4Multicast) {
  const std::vector<std::uint8_t> bytes(40);
  const Grh grh =
      grh_of(datagram(IpAddress::v4({10, 77, 0, 3}), IpAddress::v4({239, 77, 0, 9}), bytes));
  EXPECT_EQ(grh[36], 239);
  EXPECT_EQ(sum_of(std::span{grh}.subspan(kIpv4Offset)), 0xffffu);
}

TEST(Grh, IsReadAsItWasWritten) {
  const std::vector<std::uint8_t> bytes(124);
  const Datagram v4 = datagram(IpAddress::v4({10, 77, 0, 3}), IpAddress::v4({239, 1, 2, 3}), bytes);
  const auto four = read_grh(grh_of(v4));
  ASSERT_TRUE(four.has_value());
  EXPECT_EQ(four->source, v4.source);
  EXPECT_EQ(four->destination, v4.destination);

  Datagram v6 = datagram(*IpAddress::parse("fd99::1"), *IpAddress::parse("fd99::2"), bytes);
  v6.traffic_class = 0xb9;
  const auto six = read_grh(grh_of(v6));
  ASSERT_TRUE(six.has_value());
  EXPECT_EQ(six->source, v6.source);
  EXPECT_EQ(six->destination, v6.destination);
  EXPECT_EQ(six->traffic_class, 0xb9);
}

TEST(Grh, IsNotReadFromAnythingElse) {
  EXPECT_FALSE(read_grh(Grh{}).has_value());
  Grh damaged = grh_of(datagram(IpAddress::v4({10, 77, 0, 3}), IpAddress::v4({10, 77, 0, 2}), {}));
  damaged[39] ^= 1;
  EXPECT_FALSE(read_grh(damaged).has_value());
}

}  // namespace
}  // namespace verbena::packet
