// The codecs of the connection manager's messages, bit by bit.

#include "packet/cm_mad.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <random>
#include <variant>
#include <vector>

#include "packet/cm_print.h"
#include "packet/cm_steering.h"
#include "packet/ip_cm_header.h"

namespace verbena::packet {
namespace {

struct BitRange {
  std::size_t byte;
  std::size_t bit;  // 0 is the highest
  std::size_t count;
};

struct Layout {
  CmAttribute attribute;
  std::vector<BitRange> reserved;  // of the message, behind the MAD header
};

void PrintTo(const Layout& l, std::ostream* out) { *out << text(l.attribute); }

/// The reserved fields of IBA 12.6 to 12.11.
const std::vector<Layout>& layouts() {
  static const std::vector<Layout> kLayouts{
      {CmAttribute::req,
       {{4, 0, 32},
        {24, 0, 32},
        {90, 4, 4},
        {91, 0, 2},
        {94, 5, 3},
        {95, 5, 3},
        {134, 4, 4},
        {135, 0, 2},
        {138, 5, 3},
        {139, 5, 3}}},
      {CmAttribute::mra, {{8, 2, 6}, {9, 5, 3}}},
      {CmAttribute::rej, {{8, 2, 6}, {9, 7, 1}}},
      {CmAttribute::rep, {{15, 0, 8}, {19, 0, 8}, {23, 0, 8}, {27, 4, 4}}},
      {CmAttribute::rtu, {}},
      {CmAttribute::dreq, {{11, 0, 8}}},
      {CmAttribute::drep, {}},
      {CmAttribute::sidr_req, {{6, 0, 16}}},
      {CmAttribute::sidr_rep, {{6, 0, 16}, {11, 0, 8}}},
      {CmAttribute::lap,
       {{8, 0, 32}, {15, 5, 3}, {16, 0, 32}, {58, 4, 4}, {61, 0, 2}, {62, 5, 3}, {63, 5, 3}}},
      {CmAttribute::apr, {{10, 0, 16}}},
  };
  return kLayouts;
}

MadBytes mad_with(CmAttribute attribute) {
  MadBytes b{};
  encode_mad_header({.management_class = kCmClass,
                     .class_version = kCmClassVersion,
                     .transaction = 0x0123'4567'89ab'cdef,
                     .attribute = static_cast<std::uint16_t>(attribute)},
                    b);
  return b;
}

MadBytes again(const MadBytes& b) { return encode_cm(std::get<CmMad>(decode_cm(b))); }

class CmCodec : public testing::TestWithParam<Layout> {
 protected:
  [[nodiscard]] bool reserved(std::size_t bit) const {
    return std::ranges::any_of(GetParam().reserved, [bit](const BitRange& r) {
      const std::size_t first = r.byte * 8 + r.bit;
      return bit >= first && bit < first + r.count;
    });
  }
};

/// Every bit of the message has one place in the value, or is reserved.
TEST_P(CmCodec, EveryBitSurvivesOrIsReserved) {
  const MadBytes zeros = mad_with(GetParam().attribute);
  ASSERT_EQ(again(zeros), zeros);
  for (std::size_t bit = 0; bit < kCmDataSize * 8; ++bit) {
    MadBytes b = zeros;
    b[MadHeader::kSize + bit / 8] = static_cast<std::uint8_t>(0x80u >> bit % 8);
    EXPECT_EQ(again(b), reserved(bit) ? zeros : b) << "byte " << bit / 8 << " bit " << bit % 8;
  }
}

TEST_P(CmCodec, RandomMessagesMirror) {
  std::mt19937 random{9};
  for (int i = 0; i < 2'000; ++i) {
    MadBytes b = mad_with(GetParam().attribute);
    for (std::size_t bit = 0; bit < kCmDataSize * 8; ++bit) {
      if (reserved(bit) || random() % 2 == 0) continue;
      b[MadHeader::kSize + bit / 8] |= static_cast<std::uint8_t>(0x80u >> bit % 8);
    }
    ASSERT_EQ(again(b), b);
    const std::string line = text(std::get<CmMad>(decode_cm(b)));
    EXPECT_TRUE(line.starts_with(text(GetParam().attribute))) << line;
    EXPECT_EQ(line.find('\n'), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(All, CmCodec, testing::ValuesIn(layouts()),
                         [](const auto& l) { return std::string{text(l.param.attribute)}; });

CmMalformed reason_of(const MadBytes& b) {
  const auto decoded = decode_cm(b);
  const auto* reason = std::get_if<CmMalformed>(&decoded);
  return reason != nullptr ? *reason : CmMalformed{255};
}

TEST(CmMad, OtherBytesHaveAReason) {
  const MadBytes good = mad_with(CmAttribute::rtu);
  MadBytes b = good;
  b[0] = 2;
  EXPECT_EQ(reason_of(b), CmMalformed::bad_base_version);
  b = good;
  b[1] = 0x03;  // subnet administration
  EXPECT_EQ(reason_of(b), CmMalformed::other_class);
  b = good;
  b[2] = 1;
  EXPECT_EQ(reason_of(b), CmMalformed::bad_class_version);
  b = good;
  b[3] = 0x81;
  EXPECT_EQ(reason_of(b), CmMalformed::bad_method);
  b = good;
  b[17] = 0x1b;
  EXPECT_EQ(reason_of(b), CmMalformed::unknown_attribute);
  for (std::size_t n = 0; n <= kMadSize; ++n) {
    const std::vector<std::uint8_t> piece(good.begin(),
                                          good.begin() + static_cast<std::ptrdiff_t>(n));
    EXPECT_EQ(std::holds_alternative<CmMad>(decode_cm(piece)), n == kMadSize) << n;
  }
  EXPECT_EQ(std::get<CmMalformed>(decode_cm(std::vector<std::uint8_t>(kMadSize + 4))),
            CmMalformed::bad_size);
}

TEST(CmMad, EveryCodeHasAName) {
  EXPECT_EQ(text(RejectReason::consumer), "consumer");
  EXPECT_EQ(text(RejectReason{34}), "reserved reason");
  EXPECT_EQ(text(AprStatus::unsupported), "unsupported");
  EXPECT_EQ(text(SidrStatus::unsupported_service), "unsupported service");
  EXPECT_EQ(text(CmMalformed::bad_method), "bad method");
}

TEST(ServiceId, IsSpaceAndPort) {
  EXPECT_EQ((ServiceId{PortSpace::tcp, 7471}).value(), 0x0106'1d2fu);
  EXPECT_EQ((ServiceId{PortSpace::udp, 7471}).value(), 0x0111'1d2fu);
  EXPECT_EQ((ServiceId{PortSpace::ib, 1}).value(), 0x013f'0001u);
  EXPECT_EQ((ServiceId{PortSpace::ipoib, 1}).value(), 0x0002'0001u);
  EXPECT_EQ((ServiceId{0x0106'1d2f}).space(), PortSpace::tcp);
  EXPECT_EQ((ServiceId{0x1000'0000'0106'1d2f}).space(), std::nullopt);
  EXPECT_EQ((ServiceId{0x0106'1d2f}).port(), 7471);
}

std::vector<std::uint8_t> header_bytes(const IpCmHeader& h) {
  std::vector<std::uint8_t> b(IpCmHeader::kSize);
  encode_ip_cm_header(h, b);
  return b;
}

TEST(IpCmHeader, DecodeMirrorsEncode) {
  const IpCmHeader four{.source_port = 0xc57f,
                        .source = IpAddress::v4({10, 77, 0, 3}),
                        .destination = IpAddress::v4({10, 77, 0, 2})};
  const IpCmHeader six{.minor_version = 3,
                       .source_port = 1,
                       .source = *IpAddress::parse("fe80::3"),
                       .destination = *IpAddress::parse("fe80::2")};
  EXPECT_EQ(decode_ip_cm_header(header_bytes(four)), four);
  EXPECT_EQ(decode_ip_cm_header(header_bytes(six)), six);
  EXPECT_EQ(header_bytes(four)[1], 0x40);
  EXPECT_EQ(header_bytes(four)[14], 0);  // not the mapped form
}

TEST(IpCmHeader, OtherBytesGiveNothing) {
  auto b = header_bytes(
      {.source = *IpAddress::parse("fe80::3"), .destination = *IpAddress::parse("fe80::2")});
  const auto with = [&b](std::size_t at, std::uint8_t v) {
    auto changed = b;
    changed[at] = v;
    return decode_ip_cm_header(changed);
  };
  EXPECT_TRUE(with(0, 0x0f).has_value());   // a later minor version
  EXPECT_FALSE(with(0, 0x10).has_value());  // another major version
  EXPECT_FALSE(with(1, 0x50).has_value());
  EXPECT_FALSE(with(1, 0x00).has_value());
  b.pop_back();
  EXPECT_FALSE(decode_ip_cm_header(b).has_value());
  const auto mapped = IpAddress::v4({1, 2, 3, 4}).bytes();
  b = header_bytes(
      {.source = *IpAddress::parse("fe80::3"), .destination = *IpAddress::parse("fe80::2")});
  std::ranges::copy(mapped, b.begin() + 4);
  EXPECT_FALSE(decode_ip_cm_header(b).has_value()) << "IPv4 that calls itself IPv6";
}

TEST(CommId, CarriesTheSlot) {
  const CommId id = CommId::of_slot(1023, 0x3f'ffff);
  EXPECT_EQ(id.value(), 0xffff'ffffu);
  EXPECT_EQ(id.slot(), 1023u);
  EXPECT_EQ(CommId::of_slot(5, 0xffff'ffff).slot(), 5u);  // the index can't reach into it
  EXPECT_FALSE(CommId{}.known());
}

TEST(CmSteering, ARejectThatNamesNobodyIsForEveryListener) {
  std::vector<std::uint8_t> payload(CmOffsets::kMad + kMadSize + 4);
  payload[7] = 1;
  const auto place = [&payload](const CmMessage& m) {
    const MadBytes mad = encode_cm({.transaction = 1, .message = m});
    std::ranges::copy(mad, payload.begin() + CmOffsets::kMad);
  };
  place(CmRej{.local_id = CommId{7}, .reason = RejectReason::timeout});
  EXPECT_EQ(cm_target(payload), CmTarget{ToEveryListener{}});
  place(CmRej{.local_id = CommId{7}, .remote_id = CommId::of_slot(3, 9)});
  EXPECT_EQ(cm_target(payload), CmTarget{ToSlot{3}});
  payload[7] = 2;
  EXPECT_EQ(cm_target(payload), std::nullopt);
  payload[7] = 1;
  payload.resize(CmOffsets::kMad + kMadSize - 1);
  EXPECT_EQ(cm_target(payload), std::nullopt);
}

}  // namespace
}  // namespace verbena::packet
