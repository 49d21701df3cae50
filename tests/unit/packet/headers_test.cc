// The header codecs: decode mirrors encode; short buffers give nothing; reserved bits are
// ignored and sent as zeros.

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "packet/aeth.h"
#include "packet/atomic_ack_eth.h"
#include "packet/atomic_eth.h"
#include "packet/bth.h"
#include "packet/deth.h"
#include "packet/feth.h"
#include "packet/ieth.h"
#include "packet/immediate.h"
#include "packet/reth.h"
#include "packet/xrceth.h"

namespace verbena::packet {
namespace {

template <std::size_t N>
std::array<std::uint8_t, N> random_bytes(std::mt19937& generator) {
  std::array<std::uint8_t, N> b{};
  for (auto& x : b) x = static_cast<std::uint8_t>(generator());
  return b;
}

/// Buffers of exactly the size, so that a sanitizer sees a read behind it.
template <typename Decode>
void expect_nothing_below(std::size_t size, Decode decode) {
  for (std::size_t n = 0; n <= size; ++n) {
    const std::vector<std::uint8_t> b(n);
    EXPECT_EQ(decode(std::span<const std::uint8_t>{b}).has_value(), n == size) << n;
  }
}

/// `reserved` has a bit set for each one that the header doesn't use.
template <std::size_t N, typename Decode, typename Encode>
void expect_mirror(const std::array<std::uint8_t, N>& reserved, Decode decode, Encode encode) {
  std::mt19937 generator{4};
  for (int i = 0; i < 10'000; ++i) {
    const auto random = random_bytes<N>(generator);
    auto zeros = random;
    auto ones = random;
    for (std::size_t k = 0; k < N; ++k) {
      zeros[k] = static_cast<std::uint8_t>(zeros[k] & ~reserved[k]);
      ones[k] = static_cast<std::uint8_t>(ones[k] | reserved[k]);
    }
    const auto h = decode(std::span<const std::uint8_t>{zeros});
    ASSERT_TRUE(h.has_value());
    ASSERT_EQ(decode(std::span<const std::uint8_t>{ones}), h);
    auto again = ones;  // what lay there before must not show
    encode(*h, std::span<std::uint8_t>{again});
    ASSERT_EQ(again, zeros);
  }
}

TEST(BthCodec, FieldsAreWhereTheSpecPutsThem) {
  const Bth h{.opcode = Opcode::rc_send_only_imm,
              .solicited = true,
              .migration = false,
              .pad = 2,
              .pkey = 0x7fff,
              .fecn = true,
              .becn = false,
              .destination = Qpn{0x12'3456},
              .ack_request = true,
              .psn = Psn{0xab'cdef}};
  std::array<std::uint8_t, Bth::kSize> b{};
  encode_bth(h, b);
  EXPECT_EQ(b, (std::array<std::uint8_t, Bth::kSize>{0x05, 0xa0, 0x7f, 0xff, 0x80, 0x12, 0x34, 0x56,
                                                     0x80, 0xab, 0xcd, 0xef}));
  EXPECT_EQ(decode_bth(b), h);
}

TEST(BthCodec, EncodeMirrorsDecode) {
  std::mt19937 generator{1};
  for (int i = 0; i < 10'000; ++i) {
    auto b = random_bytes<Bth::kSize>(generator);
    b[1] &= 0xf0;  // transport version 0
    b[4] &= 0xc0;  // reserved bits are not kept
    b[8] &= 0x80;
    const auto h = decode_bth(b);
    ASSERT_TRUE(h.has_value());
    std::array<std::uint8_t, Bth::kSize> again{};
    encode_bth(*h, again);
    ASSERT_EQ(again, b);
  }
}

TEST(BthCodec, IgnoresReservedBits) {
  std::array<std::uint8_t, Bth::kSize> b{};
  const auto plain = decode_bth(b);
  b[4] = 0x3f;
  b[8] = 0x7f;
  EXPECT_EQ(decode_bth(b), plain);
}

TEST(BthCodec, RefusesOtherTransportVersions) {
  std::array<std::uint8_t, Bth::kSize> b{};
  for (std::uint8_t version = 0; version < 16; ++version) {
    b[1] = version;
    EXPECT_EQ(decode_bth(b).has_value(), version == 0);
  }
}

TEST(BthCodec, RefusesShortBuffers) {
  expect_nothing_below(Bth::kSize, [](std::span<const std::uint8_t> b) { return decode_bth(b); });
}

TEST(RethCodec, FieldsAreWhereTheSpecPutsThem) {
  const Reth h{0x0102'0304'0506'0708, Key{0x1112'1314}, 0x2122'2324};
  std::array<std::uint8_t, Reth::kSize> b{};
  encode_reth(h, b);
  EXPECT_EQ(b, (std::array<std::uint8_t, Reth::kSize>{1, 2, 3, 4, 5, 6, 7, 8,  //
                                                      0x11, 0x12, 0x13, 0x14,  //
                                                      0x21, 0x22, 0x23, 0x24}));
  EXPECT_EQ(decode_reth(b), h);
}

TEST(RethCodec, EncodeMirrorsDecode) {
  std::mt19937 generator{2};
  for (int i = 0; i < 10'000; ++i) {
    const auto b = random_bytes<Reth::kSize>(generator);
    std::array<std::uint8_t, Reth::kSize> again{};
    encode_reth(*decode_reth(b), again);
    ASSERT_EQ(again, b);
  }
}

TEST(RethCodec, RefusesShortBuffers) { expect_nothing_below(Reth::kSize, decode_reth); }

TEST(AethCodec, EncodeMirrorsDecode) {
  std::mt19937 generator{3};
  for (int i = 0; i < 10'000; ++i) {
    const auto b = random_bytes<Aeth::kSize>(generator);
    std::array<std::uint8_t, Aeth::kSize> again{};
    encode_aeth(*decode_aeth(b), again);
    ASSERT_EQ(again, b);
  }
}

TEST(AethCodec, RefusesShortBuffers) { expect_nothing_below(Aeth::kSize, decode_aeth); }

TEST(AethCodec, SyndromesAreThoseOfTheSpec) {
  EXPECT_EQ(Syndrome::ack().value(), 0x1f);
  EXPECT_EQ(Syndrome::ack(5).value(), 0x05);
  EXPECT_EQ(Syndrome::rnr_nak(20).value(), 0x34);
  EXPECT_EQ(Syndrome::nak(NakCode::psn_sequence_error).value(), 0x60);
  EXPECT_EQ(Syndrome::nak(NakCode::invalid_request).value(), 0x61);
  EXPECT_EQ(Syndrome::nak(NakCode::remote_access_error).value(), 0x62);
  EXPECT_EQ(Syndrome::nak(NakCode::remote_operational_error).value(), 0x63);

  EXPECT_EQ(Syndrome::ack(5).type(), Syndrome::Type::ack);
  EXPECT_EQ(Syndrome::ack(5).credits(), 5);
  EXPECT_EQ(Syndrome::rnr_nak(20).type(), Syndrome::Type::rnr_nak);
  EXPECT_EQ(Syndrome::rnr_nak(20).rnr_timer(), 20);
  EXPECT_EQ(Syndrome{0x62}.type(), Syndrome::Type::nak);
  EXPECT_EQ(Syndrome{0x62}.nak_code(), NakCode::remote_access_error);
  EXPECT_EQ(Syndrome{0x40}.type(), Syndrome::Type::reserved);
}

TEST(IethCodec, EncodeMirrorsDecode) {
  const Ieth h{Key{0x0102'0304}};
  std::array<std::uint8_t, Ieth::kSize> b{};
  encode_ieth(h, b);
  EXPECT_EQ(b, (std::array<std::uint8_t, Ieth::kSize>{1, 2, 3, 4}));
  EXPECT_EQ(decode_ieth(b), h);
}

TEST(IethCodec, RefusesShortBuffers) { expect_nothing_below(Ieth::kSize, decode_ieth); }

TEST(ImmediateCodec, KeepsTheBytes) {
  const Immediate h{1, 2, 3, 4};
  std::array<std::uint8_t, kImmediateSize> b{};
  encode_immediate(h, b);
  EXPECT_EQ(b, h);
  EXPECT_EQ(decode_immediate(b), h);
}

TEST(ImmediateCodec, RefusesShortBuffers) {
  expect_nothing_below(kImmediateSize, decode_immediate);
}

TEST(AtomicEthCodec, FieldsAreWhereTheSpecPutsThem) {
  const AtomicEth h{.address = 0x0102'0304'0506'0708,
                    .rkey = Key{0x1112'1314},
                    .swap_or_add = 0x2122'2324'2526'2728,
                    .compare = 0x3132'3334'3536'3738};
  std::array<std::uint8_t, AtomicEth::kSize> b{};
  encode_atomic_eth(h, b);
  EXPECT_EQ(b, (std::array<std::uint8_t, AtomicEth::kSize>{
                   1,    2,    3,    4,    5,    6,    7,    8,     //
                   0x11, 0x12, 0x13, 0x14,                          //
                   0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28,  //
                   0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38}));
  EXPECT_EQ(decode_atomic_eth(b), h);
}

TEST(AtomicEthCodec, EncodeMirrorsDecode) {
  expect_mirror(std::array<std::uint8_t, AtomicEth::kSize>{}, decode_atomic_eth, encode_atomic_eth);
}

TEST(AtomicEthCodec, RefusesShortBuffers) {
  expect_nothing_below(AtomicEth::kSize, decode_atomic_eth);
}

TEST(AtomicAckEthCodec, FieldsAreWhereTheSpecPutsThem) {
  const std::array<std::uint8_t, AtomicAckEth::kSize> b{1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(decode_atomic_ack_eth(b), (AtomicAckEth{0x0102'0304'0506'0708}));
}

TEST(AtomicAckEthCodec, EncodeMirrorsDecode) {
  expect_mirror(std::array<std::uint8_t, AtomicAckEth::kSize>{}, decode_atomic_ack_eth,
                encode_atomic_ack_eth);
}

TEST(AtomicAckEthCodec, RefusesShortBuffers) {
  expect_nothing_below(AtomicAckEth::kSize, decode_atomic_ack_eth);
}

TEST(DethCodec, FieldsAreWhereTheSpecPutsThem) {
  const std::array<std::uint8_t, Deth::kSize> b{0x11, 0x12, 0x13, 0x14, 0, 0x21, 0x22, 0x23};
  EXPECT_EQ(decode_deth(b), (Deth{0x1112'1314, Qpn{0x21'2223}}));
}

TEST(DethCodec, EncodeMirrorsDecode) {
  expect_mirror(std::array<std::uint8_t, Deth::kSize>{0, 0, 0, 0, 0xff}, decode_deth, encode_deth);
}

TEST(DethCodec, RefusesShortBuffers) { expect_nothing_below(Deth::kSize, decode_deth); }

TEST(XrcethCodec, FieldsAreWhereTheSpecPutsThem) {
  const std::array<std::uint8_t, Xrceth::kSize> b{0, 0x21, 0x22, 0x23};
  EXPECT_EQ(decode_xrceth(b), (Xrceth{0x21'2223}));
}

TEST(XrcethCodec, EncodeMirrorsDecode) {
  expect_mirror(std::array<std::uint8_t, Xrceth::kSize>{0xff}, decode_xrceth, encode_xrceth);
}

TEST(XrcethCodec, RefusesShortBuffers) { expect_nothing_below(Xrceth::kSize, decode_xrceth); }

TEST(FethCodec, FieldsAreWhereTheSpecPutsThem) {
  const auto decode_last_byte = [](std::uint8_t v) {
    return decode_feth(std::array<std::uint8_t, Feth::kSize>{0, 0, 0, v});
  };
  EXPECT_EQ(decode_last_byte(0x00), Feth{});
  EXPECT_EQ(decode_last_byte(0x01), (Feth{Selectivity::range, true, false}));
  EXPECT_EQ(decode_last_byte(0x02), (Feth{Selectivity::range, false, true}));
  EXPECT_EQ(decode_last_byte(0x13), (Feth{Selectivity::region, true, true}));
}

TEST(FethCodec, EncodeMirrorsDecode) {
  expect_mirror(std::array<std::uint8_t, Feth::kSize>{0xff, 0xff, 0xff, 0xcc}, decode_feth,
                encode_feth);
}

TEST(FethCodec, RefusesShortBuffers) { expect_nothing_below(Feth::kSize, decode_feth); }

}  // namespace
}  // namespace verbena::packet
