#include "packet/icrc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "packet/bth.h"

namespace verbena::packet {
namespace {

using Bytes = std::vector<std::uint8_t>;

IcrcHeaders v4_headers() {
  return {IpAddress::v4({10, 77, 0, 3}), IpAddress::v4({10, 77, 0, 2}), 0xc123, 4791, 0};
}

IcrcHeaders v6_headers() {
  return {*IpAddress::parse("fe80::3"), *IpAddress::parse("fe80::2"), 0xc123, 4791, 0};
}

class Random {
 public:
  explicit Random(std::uint32_t seed) : generator_{seed} {}
  std::uint32_t u32() { return static_cast<std::uint32_t>(generator_()); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(generator_()); }
  Bytes bytes(std::size_t n) {
    Bytes b(n);
    for (auto& x : b) x = static_cast<std::uint8_t>(generator_());
    return b;
  }

 private:
  std::mt19937 generator_;
};

/// CRC-32 as the textbook has it, bit by bit.
std::uint32_t textbook_crc(const Bytes& bytes) {
  std::uint32_t crc = 0xffff'ffff;
  for (const std::uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb8'8320u : 0u);
  }
  return ~crc;
}

void append(Bytes& out, std::span<const std::uint8_t> more) {
  out.insert(out.end(), more.begin(), more.end());
}

/// The bytes that the annex says are covered, written out.
Bytes covered_v4(const IcrcHeaders& h, const Bytes& frame) {
  Bytes out(8, 0xff);
  Bytes ip{0x45, 0xff, 0, 0, 0, 0, 0x40, 0, 0xff, 17, 0xff, 0xff};
  store_be16(&ip[2], static_cast<std::uint16_t>(20 + 8 + frame.size() + 4));
  store_be16(&ip[4], h.identification);
  append(out, ip);
  append(out, h.source.v4_bytes());
  append(out, h.destination.v4_bytes());
  Bytes udp{0, 0, 0, 0, 0, 0, 0xff, 0xff};
  store_be16(&udp[0], h.source_port);
  store_be16(&udp[2], h.destination_port);
  store_be16(&udp[4], static_cast<std::uint16_t>(8 + frame.size() + 4));
  append(out, udp);
  append(out, frame);
  out[8 + 20 + 8 + 4] = 0xff;
  return out;
}

Bytes covered_v6(const IcrcHeaders& h, const Bytes& frame) {
  Bytes out(8, 0xff);
  Bytes ip{0x6f, 0xff, 0xff, 0xff, 0, 0, 17, 0xff};
  store_be16(&ip[4], static_cast<std::uint16_t>(8 + frame.size() + 4));
  append(out, ip);
  append(out, h.source.bytes());
  append(out, h.destination.bytes());
  Bytes udp{0, 0, 0, 0, 0, 0, 0xff, 0xff};
  store_be16(&udp[0], h.source_port);
  store_be16(&udp[2], h.destination_port);
  store_be16(&udp[4], static_cast<std::uint16_t>(8 + frame.size() + 4));
  append(out, udp);
  append(out, frame);
  out[8 + 40 + 8 + 4] = 0xff;
  return out;
}

TEST(Icrc, IsTheTextbookCrcOfTheCoveredBytes) {
  Random random{1};
  for (const std::size_t size : {12u, 13u, 16u, 28u, 268u, 1052u, 4124u}) {
    const Bytes frame = random.bytes(size);
    IcrcHeaders four = v4_headers();
    four.identification = random.u16();
    EXPECT_EQ(icrc(four, frame), textbook_crc(covered_v4(four, frame))) << size;
    EXPECT_EQ(icrc(v6_headers(), frame), textbook_crc(covered_v6(v6_headers(), frame))) << size;
  }
}

TEST(Icrc, IgnoresTheCongestionByteAndNothingElse) {
  const Bytes frame = Random{2}.bytes(64);
  for (const auto& headers : {v4_headers(), v6_headers()}) {
    for (std::size_t i = 0; i < frame.size(); ++i) {
      Bytes other = frame;
      other[i] ^= 0x40;
      EXPECT_EQ(icrc(headers, other) == icrc(headers, frame), i == 4) << "byte " << i;
    }
  }
}

TEST(Icrc, CoversAddressesPortsAndIdentification) {
  const Bytes frame = Random{3}.bytes(64);
  const auto good = icrc(v4_headers(), frame);
  IcrcHeaders h = v4_headers();
  h.source = IpAddress::v4({10, 77, 0, 4});
  EXPECT_NE(icrc(h, frame), good);
  h = v4_headers();
  h.destination = IpAddress::v4({10, 77, 0, 4});
  EXPECT_NE(icrc(h, frame), good);
  h = v4_headers();
  ++h.source_port;
  EXPECT_NE(icrc(h, frame), good);
  h = v4_headers();
  ++h.destination_port;
  EXPECT_NE(icrc(h, frame), good);
  h = v4_headers();
  ++h.identification;
  EXPECT_NE(icrc(h, frame), good);
}

TEST(Icrc, Ipv6HasNoIdentification) {
  const Bytes frame = Random{4}.bytes(64);
  IcrcHeaders h = v6_headers();
  h.identification = 0x1234;
  EXPECT_EQ(icrc(h, frame), icrc(v6_headers(), frame));
}

TEST(Icrc, IsStoredLittleEndian) {
  std::array<std::uint8_t, 4> b{};
  store_icrc(b.data(), 0x1122'3344);
  EXPECT_EQ(b, (std::array<std::uint8_t, 4>{0x44, 0x33, 0x22, 0x11}));
  EXPECT_EQ(load_icrc(b.data()), 0x1122'3344u);
}

/// The wire checks before anybody parses, so a frame may be shorter than a BTH.
TEST(Icrc, TakesFramesOfAnySize) {
  Random random{5};
  for (std::size_t size = 0; size < 64; ++size) {
    const Bytes frame = random.bytes(size);
    for (IcrcHeaders h : {v4_headers(), v6_headers()}) {
      h.identification = h.source.is_v4() ? random.u16() : std::uint16_t{0};
      EXPECT_EQ(recover_identification(h, frame, icrc(h, frame)), h.identification) << size;
    }
  }
}

TEST(RecoverIdentification, FindsEveryIdentification) {
  const Bytes frame = Random{6}.bytes(28);
  IcrcHeaders h = v4_headers();
  for (unsigned id = 0; id <= 0xffff; ++id) {
    h.identification = static_cast<std::uint16_t>(id);
    ASSERT_EQ(recover_identification(v4_headers(), frame, icrc(h, frame)), id);
  }
}

TEST(RecoverIdentification, FindsItInFramesOfEverySize) {
  Random random{7};
  const Bytes bytes = random.bytes(20'000);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto frame = std::span{bytes}.first(size);
    IcrcHeaders h = v4_headers();
    h.identification = random.u16();
    ASSERT_EQ(recover_identification(h, frame, icrc(h, frame)), h.identification) << size;
  }
}

TEST(RecoverIdentification, IgnoresTheOneGiven) {
  const Bytes frame = Random{8}.bytes(64);
  IcrcHeaders h = v4_headers();
  h.identification = 7;
  const auto received = icrc(h, frame);
  h.identification = 9;
  EXPECT_EQ(recover_identification(h, frame, received), 7);
}

TEST(RecoverIdentification, AcceptsOneOf65536RandomDifferencesOnIpv4) {
  constexpr int kTries = 1'000'000;  // expected: 15.3
  const Bytes frame = Random{9}.bytes(64);
  const auto good = icrc(v4_headers(), frame);
  Random random{10};
  int accepted = 0;
  for (int i = 0; i < kTries; ++i) {
    if (recover_identification(v4_headers(), frame, good ^ random.u32())) ++accepted;
  }
  RecordProperty("accepted", accepted);
  EXPECT_GE(accepted, 3);
  EXPECT_LE(accepted, 35);
}

TEST(RecoverIdentification, AcceptsNoDifferenceOnIpv6) {
  const Bytes frame = Random{11}.bytes(64);
  const auto good = icrc(v6_headers(), frame);
  Random random{12};
  for (int i = 0; i < 1'000'000; ++i) {
    const auto difference = random.u32();
    ASSERT_EQ(recover_identification(v6_headers(), frame, good ^ difference).has_value(),
              difference == 0);
  }
}

// What the hidden identification costs: an error passes when some identification changes the
// CRC in the same way. CRC is linear, so that depends on the error's pattern and place only,
// never on the data: the counts below are exact for every packet of that size.

/// Vectors over GF(2) that are linearly independent.
class Basis {
 public:
  /// False: `v` is a sum of vectors that were added before.
  bool add(std::uint32_t v) {
    while (v != 0) {
      std::uint32_t& own = by_top_[static_cast<std::size_t>(std::countl_zero(v))];
      if (own == 0) {
        own = v;
        return true;
      }
      v ^= own;
    }
    return false;
  }

 private:
  std::array<std::uint32_t, 32> by_top_{};
};

/// A frame of zeros and what a single error does to its ICRC.
struct Effects {
  Effects(const IcrcHeaders& headers, std::size_t payload_size) {
    Bytes frame(Bth::kSize + payload_size);
    const auto good = icrc(headers, frame);
    for (unsigned bit = 0; bit < 16; ++bit) {
      IcrcHeaders other = headers;
      other.identification = static_cast<std::uint16_t>(1u << bit);
      identification.add(icrc(other, frame) ^ good);
    }
    for (std::size_t i = Bth::kSize; i < frame.size(); ++i) {
      for (unsigned bit = 0; bit < 8; ++bit) {  // lowest first, as the CRC takes them
        frame[i] = static_cast<std::uint8_t>(1u << bit);
        payload.push_back(icrc(headers, frame) ^ good);
      }
      frame[i] = 0;
    }
  }

  Basis identification;                // empty on IPv6
  std::vector<std::uint32_t> payload;  // of each bit
};

/// Bursts of up to 16 bits in the payload that pass.
std::size_t unnoticed_bursts(const IcrcHeaders& headers, std::size_t payload_size) {
  constexpr std::size_t kBurst = 16;
  const Effects effects{headers, payload_size};
  std::size_t n = 0;
  for (std::size_t first = 0; first < effects.payload.size(); ++first) {
    Basis basis = effects.identification;
    std::size_t ways = 1;  // to write the same sum
    const std::size_t end = std::min(first + kBurst, effects.payload.size());
    for (std::size_t bit = first + 1; bit < end; ++bit) {
      if (!basis.add(effects.payload[bit])) ways *= 2;
    }
    if (!basis.add(effects.payload[first])) n += ways;
  }
  return n;
}

std::size_t unnoticed_single_bits(const IcrcHeaders& headers, std::size_t payload_size) {
  Bytes frame(Bth::kSize + payload_size);
  const auto good = icrc(headers, frame);
  std::size_t n = 0;
  for (std::size_t i = 8 * Bth::kSize; i < 8 * frame.size(); ++i) {
    const auto flip = static_cast<std::uint8_t>(1u << (i % 8));
    frame[i / 8] ^= flip;
    if (recover_identification(headers, frame, good)) ++n;
    frame[i / 8] ^= flip;
  }
  return n;
}

TEST(Protection, EverySingleBitErrorIsNoticed) {
  for (const std::size_t payload_size : {64u, 256u, 1024u, 4096u}) {
    EXPECT_EQ(unnoticed_single_bits(v4_headers(), payload_size), 0u) << payload_size;
    EXPECT_EQ(unnoticed_single_bits(v6_headers(), payload_size), 0u) << payload_size;
  }
}

/// 32,768 bursts begin at each payload bit.
TEST(Protection, OneOf65536BurstsPassesOnIpv4AndNoneOnIpv6) {
  EXPECT_EQ(unnoticed_bursts(v4_headers(), 64), 257u);
  EXPECT_EQ(unnoticed_bursts(v4_headers(), 256), 913u);
  EXPECT_EQ(unnoticed_bursts(v4_headers(), 1024), 3980u);
  EXPECT_EQ(unnoticed_bursts(v4_headers(), 4096), 16693u);
  EXPECT_EQ(unnoticed_bursts(v6_headers(), 4096), 0u);
}

}  // namespace
}  // namespace verbena::packet
