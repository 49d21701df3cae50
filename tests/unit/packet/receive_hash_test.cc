#include "packet/receive_hash.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/bytes.h"

namespace verbena::packet {
namespace {

using Bytes = std::vector<std::uint8_t>;

// The key and the results are those of the published verification suite of receive side scaling.
constexpr ReceiveHash::Key kKey{0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
                                0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
                                0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
                                0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

Bytes ipv4_frame(std::uint8_t protocol, std::uint32_t from, std::uint16_t from_port,
                 std::uint32_t to, std::uint16_t to_port) {
  Bytes f(60);
  store_be16(&f[12], 0x0800);
  f[14] = 0x45;
  f[14 + 9] = protocol;
  store_be32(&f[14 + 12], from);
  store_be32(&f[14 + 16], to);
  store_be16(&f[34], from_port);
  store_be16(&f[36], to_port);
  return f;
}

constexpr std::uint32_t kAddresses = ReceiveHash::kSourceIpv4 | ReceiveHash::kDestinationIpv4 |
                                     ReceiveHash::kSourceIpv6 | ReceiveHash::kDestinationIpv6;
constexpr std::uint32_t kTcp = ReceiveHash::kSourceTcp | ReceiveHash::kDestinationTcp;

std::uint32_t hash(const Bytes& frame, std::uint32_t fields) {
  return ReceiveHash{kKey, fields}.of(FrameHeaders{frame});
}

TEST(ReceiveHash, OfIpv4IsAsPublished) {
  const struct {
    std::uint32_t from, to;
    std::uint16_t from_port, to_port;
    std::uint32_t addresses, with_ports;
  } rows[] = {
      // 66.9.149.187:2794 to 161.142.100.80:1766
      {0x420995bb, 0xa18e6450, 2794, 1766, 0x323e8fc2, 0x51ccc178},
      // 199.92.111.2:14230 to 65.69.140.83:4739
      {0xc75c6f02, 0x41458c53, 14230, 4739, 0xd718262a, 0xc626b0ea},
  };
  for (const auto& row : rows) {
    const Bytes frame = ipv4_frame(6, row.from, row.from_port, row.to, row.to_port);
    EXPECT_EQ(hash(frame, kAddresses), row.addresses);
    EXPECT_EQ(hash(frame, kAddresses | kTcp), row.with_ports);
  }
}

TEST(ReceiveHash, OfIpv6IsAsPublished) {
  // 3ffe:2501:200:1fff::7:2794 to 3ffe:2501:200:3::1:1766
  Bytes f(80);
  store_be16(&f[12], 0x86dd);
  f[14] = 0x60;
  f[14 + 6] = 6;
  store_be64(&f[14 + 8], 0x3ffe'2501'0200'1fffull);
  store_be64(&f[14 + 16], 7);
  store_be64(&f[14 + 24], 0x3ffe'2501'0200'0003ull);
  store_be64(&f[14 + 32], 1);
  store_be16(&f[54], 2794);
  store_be16(&f[56], 1766);
  EXPECT_EQ(hash(f, kAddresses), 0x2cc18cd5u);
  EXPECT_EQ(hash(f, kAddresses | kTcp), 0x40207d3du);
}

TEST(ReceiveHash, OnlyFieldsThatAreAskedForCount) {
  const Bytes udp = ipv4_frame(17, 1, 2, 3, 4);
  const Bytes other = ipv4_frame(17, 1, 9, 3, 9);
  EXPECT_EQ(hash(udp, kAddresses | kTcp), hash(other, kAddresses | kTcp)) << "they are not TCP";
  EXPECT_NE(hash(udp, ReceiveHash::kAll), hash(other, ReceiveHash::kAll));
  EXPECT_EQ(hash(udp, 0), 0u);
  EXPECT_EQ(hash(Bytes(60), ReceiveHash::kAll), 0u) << "no IP";
}

}  // namespace
}  // namespace verbena::packet
