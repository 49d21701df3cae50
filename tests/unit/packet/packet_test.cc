#include "packet/packet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <variant>
#include <vector>

#include "packet/print.h"

namespace verbena::packet {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::vector<Opcode> known_opcodes() {
  std::vector<Opcode> out;
  for (unsigned v = 0; v < 256; ++v) {
    if (info_of(static_cast<Opcode>(v)).known()) out.push_back(static_cast<Opcode>(v));
  }
  return out;
}

/// Every field differs from its default.
Packet example(Opcode op, std::span<const std::uint8_t> payload) {
  Packet p;
  p.bth = {.opcode = op,
           .solicited = true,
           .migration = false,
           .pad = pad_of(payload.size()),
           .pkey = 0x8001,
           .fecn = true,
           .becn = true,
           .destination = Qpn{0x12'3456},
           .ack_request = true,
           .psn = Psn{0xff'fffe}};
  p.reth = {0x7f00'1234'5678, Key{0xdead'beef}, 9000};
  p.aeth = {Syndrome::ack(3), 0x01'0203};
  p.immediate = {1, 2, 3, 4};
  p.ieth = {Key{0x5566'7788}};
  p.payload = payload;
  return p;
}

Bytes frame_of(const Packet& p) {
  Bytes b(frame_size(p.bth.opcode, p.payload.size()));
  EXPECT_EQ(encode(p, b), b.size());
  return b;
}

Bytes with_icrc(Bytes frame) {
  frame.resize(frame.size() + kIcrcSize, 0xcc);
  return frame;
}

Malformed reason_of(std::span<const std::uint8_t> bytes) {
  return std::get<Malformed>(parse(bytes));
}

TEST(Packet, ParseMirrorsEncode) {
  const Bytes data{10, 11, 12, 13, 14, 15, 16, 17};
  for (const Opcode op : known_opcodes()) {
    for (std::size_t size = 0; size <= data.size(); ++size) {
      const Packet in = example(op, std::span{data}.first(size));
      const Bytes bytes = with_icrc(frame_of(in));
      const auto parsed = parse(bytes);
      ASSERT_TRUE(std::holds_alternative<Packet>(parsed)) << text(in);
      const Packet& out = std::get<Packet>(parsed);
      const OpcodeInfo& info = info_of(op);
      EXPECT_EQ(out.bth, in.bth) << info.name;
      EXPECT_EQ(out.reth, info.reth ? in.reth : Reth{}) << info.name;
      EXPECT_EQ(out.aeth, info.aeth ? in.aeth : Aeth{}) << info.name;
      EXPECT_EQ(out.immediate, info.immediate ? in.immediate : Immediate{}) << info.name;
      EXPECT_EQ(out.ieth, info.ieth ? in.ieth : Ieth{}) << info.name;
      EXPECT_TRUE(std::ranges::equal(out.payload, in.payload)) << info.name;
    }
  }
}

TEST(Packet, PadIsZeros) {
  const Bytes data{9};
  const Bytes frame = frame_of(example(Opcode::rc_send_only, data));
  EXPECT_EQ((Bytes{frame.begin() + Bth::kSize, frame.end()}), (Bytes{9, 0, 0, 0}));
}

TEST(Packet, HeadersAloneAreTheStartOfTheFrame) {
  const Bytes data(16, 0x77);
  for (const Opcode op : known_opcodes()) {
    const Packet p = example(op, data);
    const Bytes frame = frame_of(p);
    Bytes headers(header_size(op));
    encode_headers(p, headers);
    EXPECT_TRUE(std::equal(headers.begin(), headers.end(), frame.begin())) << p.info().name;
  }
}

TEST(Packet, PadRoundsUpToFour) {
  EXPECT_EQ(pad_of(0), 0);
  EXPECT_EQ(pad_of(1), 3);
  EXPECT_EQ(pad_of(2), 2);
  EXPECT_EQ(pad_of(3), 1);
  EXPECT_EQ(pad_of(4), 0);
  EXPECT_EQ(frame_size(Opcode::rc_send_only, 5), 20u);
}

TEST(Packet, ShorterThanItsHeadersIsTooShort) {
  for (const Opcode op : known_opcodes()) {
    Packet p = example(op, {});
    const Bytes whole = with_icrc(frame_of(p));
    for (std::size_t size = 0; size < whole.size(); ++size) {
      EXPECT_EQ(reason_of(std::span{whole}.first(size)), Malformed::too_short) << text(p);
    }
  }
}

TEST(Packet, ReasonsForRefusal) {
  const Bytes data{1, 2, 3, 4};
  const Bytes good = with_icrc(frame_of(example(Opcode::rc_send_only, data)));
  Bytes b = good;
  b[1] |= 1;
  EXPECT_EQ(reason_of(b), Malformed::bad_version);
  b = good;
  b[0] = 0x1f;
  EXPECT_EQ(reason_of(b), Malformed::unknown_opcode);

  Packet p = example(Opcode::rc_send_only, {});
  b = with_icrc(frame_of(p));
  b[1] |= 0x30;
  EXPECT_EQ(reason_of(b), Malformed::bad_pad);
}

/// The ICRC's bytes are never payload, however the pad lies.
TEST(Packet, PadMayTakeTheWholePayload) {
  Bytes b = with_icrc(frame_of(example(Opcode::rc_send_only, {})));
  b.insert(b.begin() + Bth::kSize, {0, 0, 0});
  b[1] |= 0x30;
  const auto parsed = parse(b);
  ASSERT_TRUE(std::holds_alternative<Packet>(parsed));
  EXPECT_TRUE(std::get<Packet>(parsed).payload.empty());
}

TEST(Packet, ParseIsTotal) {
  std::mt19937 generator{20};
  std::array<std::size_t, 5> outcomes{};  // parsed, and each reason
  for (unsigned op = 0; op < 256; ++op) {
    for (std::size_t size = 0; size <= 64; ++size) {
      for (int round = 0; round < 8; ++round) {
        Bytes b(size);  // its own allocation: a sanitizer sees a read behind the end
        for (auto& x : b) x = static_cast<std::uint8_t>(generator());
        if (size > 0) b[0] = static_cast<std::uint8_t>(op);
        if (size > 1 && round != 0) b[1] &= 0xf0;  // else most end at the version
        const auto parsed = parse(b);
        const auto* p = std::get_if<Packet>(&parsed);
        ++outcomes[p != nullptr ? 0 : 1 + static_cast<std::size_t>(std::get<Malformed>(parsed))];
        if (p == nullptr) continue;
        EXPECT_EQ(header_size(p->bth.opcode) + p->payload.size() + p->bth.pad + kIcrcSize, size);
        EXPECT_FALSE(text(*p).empty());
      }
    }
  }
  for (const std::size_t n : outcomes) EXPECT_GT(n, 0u);
}

}  // namespace
}  // namespace verbena::packet
