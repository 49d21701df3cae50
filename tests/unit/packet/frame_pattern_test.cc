#include "packet/frame_pattern.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace verbena::packet {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes from_hex(std::string_view text) {
  Bytes out;
  for (std::size_t i = 0; i + 1 < text.size();) {
    if (text[i] == ' ') {
      ++i;
      continue;
    }
    out.push_back(
        static_cast<std::uint8_t>(std::stoi(std::string{text.substr(i, 2)}, nullptr, 16)));
    i += 2;
  }
  return out;
}

const std::string kMacs = "0150561920a7 248a07a528c8 ";
const std::string kIpv4 = "0800 45000020 00004000 40110000 01010101 02020202 ";
const std::string kUdp = "04d2162e 000c0000 61616161";
const std::string kIpv6 =
    "86dd 6120abcd 00080640 a0a1000000000000 a2a3a4a5a6a7a8a9 b0b1000000000000 b2b3b4b5b6b7b8b9 ";

HeaderPattern pattern(FrameLayer layer, std::size_t at, const std::string& value) {
  HeaderPattern p{.layer = layer};
  for (std::uint8_t b : from_hex(value)) {
    p.value[at] = b;
    p.mask[at++] = 0xff;
  }
  return p;
}

TEST(FrameHeaders, OfUdpOverIpv4) {
  const Bytes frame = from_hex(kMacs + kIpv4 + kUdp);
  const FrameHeaders h{frame};
  EXPECT_EQ(h.find(FrameLayer::ethernet).size(), kEthernetPieces);
  EXPECT_EQ(h.find(FrameLayer::ipv4).size(), 20u);
  EXPECT_EQ(h.find(FrameLayer::udp).size(), 4u);
  EXPECT_TRUE(h.find(FrameLayer::tcp).empty());
  EXPECT_TRUE(h.find(FrameLayer::ipv6).empty());
  EXPECT_TRUE(is_multicast(h.destination()));
}

TEST(FrameHeaders, OfTcpOverIpv6) {
  const Bytes frame = from_hex(kMacs + kIpv6 + kUdp);
  const FrameHeaders h{frame};
  EXPECT_EQ(h.find(FrameLayer::ipv6).size(), 40u);
  EXPECT_EQ(h.find(FrameLayer::tcp).size(), 4u);
  EXPECT_TRUE(h.find(FrameLayer::udp).empty());
}

TEST(FrameHeaders, OfATaggedFrameTellTheTypeInside) {
  const Bytes frame = from_hex(kMacs + "8100 bc0c " + kIpv4 + kUdp);
  const FrameHeaders h{frame};
  const auto ethernet = h.find(FrameLayer::ethernet);
  EXPECT_EQ(load_be16(&ethernet[kEthernetType]), 0x0800);
  EXPECT_EQ(load_be16(&ethernet[kVlanTag]), 0xbc0c);
  EXPECT_EQ(h.find(FrameLayer::udp).size(), 4u);
}

TEST(FrameHeaders, AfterOptionsOfIpv4ComeThePorts) {
  const Bytes frame =
      from_hex(kMacs + "0800 46000024 00000000 40110000 01010101 02020202 94040000 " + kUdp);
  const FrameHeaders h{frame};
  ASSERT_EQ(h.find(FrameLayer::udp).size(), 4u);
  EXPECT_EQ(load_be16(h.find(FrameLayer::udp).data()), 0x04d2);
}

TEST(FrameHeaders, LaterFragmentsHaveNoPorts) {
  const Bytes frame = from_hex(kMacs + "0800 45000020 00002001 40110000 01010101 02020202 " + kUdp);
  EXPECT_TRUE(FrameHeaders{frame}.find(FrameLayer::udp).empty());
  EXPECT_FALSE(FrameHeaders{frame}.find(FrameLayer::ipv4).empty());
}

TEST(FrameHeaders, WhatIsCutShortHasNoHeader) {
  const std::vector<std::string> texts{kMacs + kIpv4 + kUdp, kMacs + kIpv6 + kUdp,
                                       kMacs + "8100 bc0c " + kIpv4 + kUdp};
  for (const std::string& text : texts) {
    const Bytes frame = from_hex(text);
    for (std::size_t n = 0; n <= frame.size(); ++n) {
      const Bytes cut{frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(n)};
      const FrameHeaders h{cut};
      EXPECT_EQ(h.find(FrameLayer::ethernet).empty(), n < 14);
      for (auto layer : {FrameLayer::ipv4, FrameLayer::ipv6, FrameLayer::tcp, FrameLayer::udp}) {
        const auto bytes = h.find(layer);
        if (bytes.empty()) continue;
        EXPECT_LE(bytes.data() + bytes.size(), cut.data() + cut.size());
      }
    }
  }
  // The header says that it is longer than the frame, or shorter than a header.
  for (const char* const first : {"4f000020", "44000020", "65000020"}) {
    std::string text{kMacs};
    text.append("0800 ").append(first).append(" 00000000 40110000 01010101 02020202");
    const Bytes frame = from_hex(text);
    EXPECT_TRUE(FrameHeaders{frame}.find(FrameLayer::udp).empty());
  }
}

TEST(HeaderPattern, MatchesWhatItsMaskHas) {
  const Bytes frame = from_hex(kMacs + kIpv4 + kUdp);
  const FrameHeaders h{frame};
  EXPECT_TRUE(pattern(FrameLayer::ethernet, 0, kMacs).matches(h));
  EXPECT_TRUE(pattern(FrameLayer::ethernet, kEthernetType, "0800").matches(h));
  EXPECT_FALSE(pattern(FrameLayer::ethernet, kEthernetType, "86dd").matches(h));
  EXPECT_TRUE(pattern(FrameLayer::ipv4, 16, "02020202").matches(h));
  EXPECT_FALSE(pattern(FrameLayer::ipv4, 16, "02020203").matches(h));
  EXPECT_TRUE(pattern(FrameLayer::udp, 2, "162e").matches(h));
  EXPECT_FALSE(pattern(FrameLayer::tcp, 2, "162e").matches(h)) << "it is UDP";
  // Without a mask, the header must be there.
  EXPECT_TRUE(HeaderPattern{.layer = FrameLayer::ipv4}.matches(h));
  EXPECT_FALSE(HeaderPattern{.layer = FrameLayer::ipv6}.matches(h));
  auto net = pattern(FrameLayer::ipv4, 16, "0202ffff");
  net.mask[18] = net.mask[19] = 0;
  EXPECT_TRUE(net.matches(h));
}

TEST(HeaderPattern, AllOfARuleMustMatch) {
  const Bytes frame = from_hex(kMacs + kIpv4 + kUdp);
  const FrameHeaders h{frame};
  const std::array both{pattern(FrameLayer::ipv4, 16, "02020202"),
                        pattern(FrameLayer::udp, 0, "04d2")};
  EXPECT_TRUE(matches(both, h));
  const std::array one{both[0], pattern(FrameLayer::udp, 0, "04d3")};
  EXPECT_FALSE(matches(one, h));
  EXPECT_TRUE(matches({}, h));
}

}  // namespace
}  // namespace verbena::packet
