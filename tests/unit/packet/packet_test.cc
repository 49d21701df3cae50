#include "packet/packet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <set>
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
  p.xrceth = {0x34'5678};
  p.deth = {0x8001'0000, Qpn{0x65'4321}};
  p.feth = {Selectivity::region, true, true};
  p.reth = {0x7f00'1234'5678, Key{0xdead'beef}, 9000};
  p.atomic_eth = {0x7f00'8765'4320, Key{0xfeed'f00d}, 0x1122'3344'5566'7788, 99};
  p.aeth = {Syndrome::ack(3), 0x01'0203};
  p.atomic_ack_eth = {0x99aa'bbcc'ddee'ff00};
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
      EXPECT_EQ(out.xrceth, info.xrceth ? in.xrceth : Xrceth{}) << info.name;
      EXPECT_EQ(out.deth, info.deth ? in.deth : Deth{}) << info.name;
      EXPECT_EQ(out.feth, info.feth ? in.feth : Feth{}) << info.name;
      EXPECT_EQ(out.reth, info.reth ? in.reth : Reth{}) << info.name;
      EXPECT_EQ(out.atomic_eth, info.atomic_eth ? in.atomic_eth : AtomicEth{}) << info.name;
      EXPECT_EQ(out.aeth, info.aeth ? in.aeth : Aeth{}) << info.name;
      EXPECT_EQ(out.atomic_ack_eth, info.atomic_ack_eth ? in.atomic_ack_eth : AtomicAckEth{})
          << info.name;
      EXPECT_EQ(out.immediate, info.immediate ? in.immediate : Immediate{}) << info.name;
      EXPECT_EQ(out.ieth, info.ieth ? in.ieth : Ieth{}) << info.name;
      EXPECT_TRUE(std::ranges::equal(out.payload, in.payload)) << info.name;
    }
  }
}

/// The order that the spec gives, on the opcodes with more than one extension.
TEST(Packet, HeadersStandInOrder) {
  const auto extensions = [](Opcode op) {
    const Bytes frame = frame_of(example(op, {}));
    return Bytes{frame.begin() + Bth::kSize, frame.end()};
  };
  const Bytes xrceth{0, 0x34, 0x56, 0x78};
  const Bytes deth{0x80, 0x01, 0, 0, 0, 0x65, 0x43, 0x21};
  const Bytes feth{0, 0, 0, 0x13};
  const Bytes reth{0, 0, 0x7f, 0, 0x12, 0x34, 0x56, 0x78, 0xde, 0xad, 0xbe, 0xef, 0, 0, 0x23, 0x28};
  const Bytes immediate{1, 2, 3, 4};
  const Bytes ieth{0x55, 0x66, 0x77, 0x88};
  const Bytes aeth{3, 1, 2, 3};
  const Bytes atomic_ack{0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0x00};
  const auto join = [](std::initializer_list<Bytes> parts) {
    Bytes all;
    for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  };
  EXPECT_EQ(extensions(Opcode::rc_write_only_imm), join({reth, immediate}));
  EXPECT_EQ(extensions(Opcode::rc_atomic_acknowledge), join({aeth, atomic_ack}));
  EXPECT_EQ(extensions(Opcode::rc_flush), join({feth, reth}));
  EXPECT_EQ(extensions(Opcode::ud_send_only_imm), join({deth, immediate}));
  EXPECT_EQ(extensions(Opcode::xrc_write_only_imm), join({xrceth, reth, immediate}));
  EXPECT_EQ(extensions(Opcode::xrc_send_last_inv), join({xrceth, ieth}));
  EXPECT_EQ(extensions(Opcode::xrc_flush), join({xrceth, feth, reth}));
  EXPECT_EQ(extensions(Opcode::xrc_atomic_write), join({xrceth, reth}));
  EXPECT_EQ(extensions(Opcode::xrc_atomic_acknowledge), join({aeth, atomic_ack}));
}

/// As a hardware NIC sends it: no migration bit, PSN 0, BECN, 16 reserved bytes.
TEST(Packet, CongestionNotification) {
  Packet p;
  p.bth.opcode = Opcode::cnp;
  p.bth.migration = false;
  p.bth.becn = true;
  p.bth.destination = Qpn{0xd2};
  Bytes expected{0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x00, 0xd2, 0x00, 0x00, 0x00, 0x00};
  expected.resize(28);
  Bytes frame(expected.size(), 0xee);
  encode_headers(p, frame);
  EXPECT_EQ(frame, expected);

  frame[20] = 0x77;  // reserved: ignored
  const auto parsed = parse(with_icrc(frame));
  ASSERT_TRUE(std::holds_alternative<Packet>(parsed));
  EXPECT_EQ(std::get<Packet>(parsed).bth, p.bth);
  EXPECT_TRUE(std::get<Packet>(parsed).payload.empty());
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

/// C9-12 ff.: payload and pad together are a whole number of words.
TEST(Packet, PayloadWithPadIsAWholeNumberOfWords) {
  const Bytes whole = with_icrc(frame_of(example(Opcode::rc_send_only, {})));
  for (std::size_t extra = 0; extra < 9; ++extra) {
    for (std::uint8_t pad = 0; pad < 4; ++pad) {
      Bytes b = whole;
      b.insert(b.begin() + Bth::kSize, extra, std::uint8_t{0});
      b[1] = static_cast<std::uint8_t>((b[1] & 0xcf) | (pad << 4));
      const auto parsed = parse(b);
      if (extra % 4 == 0 && pad <= extra) {
        ASSERT_TRUE(std::holds_alternative<Packet>(parsed)) << extra << " " << int{pad};
        EXPECT_EQ(std::get<Packet>(parsed).payload.size(), extra - pad);
      } else {
        ASSERT_TRUE(std::holds_alternative<Malformed>(parsed)) << extra << " " << int{pad};
        EXPECT_EQ(std::get<Malformed>(parsed), Malformed::bad_pad);
      }
    }
  }
}

TEST(Packet, ParseIsTotal) {
  std::mt19937 generator{20};
  std::array<std::size_t, 5> outcomes{};  // parsed, and each reason
  std::set<Opcode> accepted;
  for (unsigned op = 0; op < 256; ++op) {
    for (std::size_t size = 0; size <= 72; ++size) {
      for (int round = 0; round < 8; ++round) {
        Bytes b(size);  // its own allocation: a sanitizer sees a read behind the end
        for (auto& x : b) x = static_cast<std::uint8_t>(generator());
        if (size > 0) b[0] = static_cast<std::uint8_t>(op);
        if (size > 1 && round != 0) b[1] &= 0xf0;  // else most end at the version
        const auto parsed = parse(b);
        const auto* p = std::get_if<Packet>(&parsed);
        ++outcomes[p != nullptr ? 0 : 1 + static_cast<std::size_t>(std::get<Malformed>(parsed))];
        if (p == nullptr) continue;
        accepted.insert(p->bth.opcode);
        EXPECT_EQ(header_size(p->bth.opcode) + p->payload.size() + p->bth.pad + kIcrcSize, size);
        EXPECT_FALSE(text(*p).empty());
      }
    }
  }
  for (const std::size_t n : outcomes) EXPECT_GT(n, 0u);
  EXPECT_EQ(accepted.size(), known_opcodes().size());
}

}  // namespace
}  // namespace verbena::packet
