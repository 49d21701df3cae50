#include "packet/print.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <span>

namespace verbena::packet {
namespace {

constexpr std::array<std::uint8_t, 1024> kData{};

Packet packet(Opcode op) {
  Packet p;
  p.bth.opcode = op;
  p.bth.destination = Qpn{0x11};
  p.bth.psn = Psn{0x1000};
  return p;
}

TEST(Print, Send) {
  Packet p = packet(Opcode::rc_send_only);
  EXPECT_EQ(text(p), "RC SEND only qp 0x000011 psn 0x001000 payload 0");
  p.payload = std::span{kData}.first(100);
  EXPECT_EQ(text(p), "RC SEND only qp 0x000011 psn 0x001000 payload 100");
}

TEST(Print, Write) {
  Packet p = packet(Opcode::rc_write_first);
  p.bth.ack_request = true;
  p.reth = {0x7f00'0000'1000, Key{0x1234}, 9000};
  p.payload = kData;
  EXPECT_EQ(text(p),
            "RC WRITE first qp 0x000011 psn 0x001000 ackreq va 0x7f0000001000 rkey 0x00001234 "
            "len 9000 payload 1024");
}

TEST(Print, ReadRequestHasNoPayload) {
  Packet p = packet(Opcode::rc_read_request);
  p.reth = {0, Key{0x1234}, 1};
  EXPECT_EQ(text(p), "RC READ request qp 0x000011 psn 0x001000 va 0x0 rkey 0x00001234 len 1");
}

TEST(Print, Immediate) {
  Packet p = packet(Opcode::rc_send_only_imm);
  p.immediate = {0x0a, 0x0b, 0x0c, 0x0d};
  EXPECT_EQ(text(p),
            "RC SEND only with immediate qp 0x000011 psn 0x001000 imm 0x0a0b0c0d payload 0");
}

TEST(Print, Invalidate) {
  Packet p = packet(Opcode::rc_send_only_inv);
  p.ieth = {Key{0x1b6b}};
  EXPECT_EQ(text(p),
            "RC SEND only with invalidate qp 0x000011 psn 0x001000 invalidate 0x00001b6b "
            "payload 0");
}

TEST(Print, Acknowledge) {
  Packet p = packet(Opcode::rc_acknowledge);
  p.aeth = {Syndrome::ack(), 7};
  EXPECT_EQ(text(p), "RC ACKNOWLEDGE qp 0x000011 psn 0x001000 ack msn 7");
  p.aeth = {Syndrome::nak(NakCode::remote_access_error), 7};
  EXPECT_EQ(text(p), "RC ACKNOWLEDGE qp 0x000011 psn 0x001000 nak remote access error msn 7");
}

TEST(Print, Atomics) {
  Packet p = packet(Opcode::rc_compare_swap);
  p.atomic_eth = {0x1000, Key{0x1234}, 0xaa, 0xbb};
  EXPECT_EQ(text(p),
            "RC COMPARE_SWAP qp 0x000011 psn 0x001000 va 0x1000 rkey 0x00001234 compare 0xbb "
            "swap 0xaa");
  p.bth.opcode = Opcode::rc_fetch_add;
  EXPECT_EQ(text(p), "RC FETCH_ADD qp 0x000011 psn 0x001000 va 0x1000 rkey 0x00001234 add 0xaa");
  p.bth.opcode = Opcode::rc_atomic_acknowledge;
  p.aeth = {Syndrome::ack(), 7};
  p.atomic_ack_eth = {0x1122'3344'5566'7788};
  EXPECT_EQ(text(p),
            "RC ATOMIC ACKNOWLEDGE qp 0x000011 psn 0x001000 ack msn 7 original "
            "0x1122334455667788");
  p.bth.opcode = Opcode::rc_atomic_write;
  p.reth = {0x1000, Key{0x1234}, 8};
  p.payload = std::span{kData}.first(8);
  EXPECT_EQ(text(p),
            "RC ATOMIC_WRITE qp 0x000011 psn 0x001000 va 0x1000 rkey 0x00001234 len 8 payload 8");
}

TEST(Print, Flush) {
  Packet p = packet(Opcode::rc_flush);
  p.reth = {0x1000, Key{0x1234}, 64};
  p.feth = {Selectivity::range, true, true};
  EXPECT_EQ(text(p),
            "RC FLUSH qp 0x000011 psn 0x001000 range global persistent va 0x1000 "
            "rkey 0x00001234 len 64");
  p.feth = {Selectivity::region, false, true};
  EXPECT_EQ(text(p),
            "RC FLUSH qp 0x000011 psn 0x001000 region persistent va 0x1000 rkey 0x00001234 "
            "len 64");
  EXPECT_EQ(text(static_cast<Selectivity>(3)), "reserved selectivity");
}

TEST(Print, OtherServices) {
  Packet p = packet(Opcode::uc_write_last);
  EXPECT_EQ(text(p), "UC WRITE last qp 0x000011 psn 0x001000 payload 0");
  p.bth.opcode = Opcode::ud_send_only;
  p.deth = {0x1111'1111, Qpn{0xf3}};
  EXPECT_EQ(text(p),
            "UD SEND only qp 0x000011 psn 0x001000 from 0x0000f3 qkey 0x11111111 payload 0");
  p.bth.opcode = Opcode::xrc_send_middle;
  p.xrceth = {0x45};
  EXPECT_EQ(text(p), "XRC SEND middle qp 0x000011 psn 0x001000 srq 0x000045 payload 0");
  p.bth.opcode = Opcode::cnp;
  p.bth.becn = true;
  EXPECT_EQ(text(p), "CNP qp 0x000011 psn 0x001000 becn");
}

TEST(Print, Flags) {
  Packet p = packet(Opcode::rc_send_only);
  p.bth.pkey = 0x7fff;
  p.bth.solicited = p.bth.ack_request = p.bth.fecn = p.bth.becn = true;
  EXPECT_EQ(text(p),
            "RC SEND only qp 0x000011 psn 0x001000 pkey 0x7fff solicited ackreq fecn becn "
            "payload 0");
}

TEST(Print, UnknownOpcode) {
  EXPECT_EQ(text(packet(static_cast<Opcode>(0xff))),
            "unknown opcode 0xff qp 0x000011 psn 0x001000");
}

TEST(Print, EverySyndromeHasWords) {
  EXPECT_EQ(text(Syndrome{0x1f}), "ack");
  EXPECT_EQ(text(Syndrome{0x05}), "ack credits 5");
  EXPECT_EQ(text(Syndrome{0x34}), "rnr nak timer 20");
  EXPECT_EQ(text(Syndrome{0x60}), "nak psn sequence error");
  EXPECT_EQ(text(Syndrome{0x7f}), "nak reserved code");
  EXPECT_EQ(text(Syndrome{0x45}), "reserved syndrome 0x45");
  for (unsigned v = 0; v < 256; ++v) {
    EXPECT_FALSE(text(Syndrome{static_cast<std::uint8_t>(v)}).empty());
  }
}

}  // namespace
}  // namespace verbena::packet
