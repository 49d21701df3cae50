#include "packet/opcode.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <set>
#include <string_view>
#include <vector>

#include "packet/packet.h"

namespace verbena::packet {
namespace {

constexpr Opcode opcode(unsigned v) { return static_cast<Opcode>(v); }

std::vector<Opcode> known_opcodes() {
  std::vector<Opcode> out;
  for (unsigned v = 0; v < 256; ++v) {
    if (info_of(opcode(v)).known()) out.push_back(opcode(v));
  }
  return out;
}

/// The spec's table in its own words: which of the 32 operations a service has.
bool in_the_spec(unsigned v) {
  const unsigned operation = v & 0x1f;
  const bool connected = operation <= 0x0b;
  const bool reliable = operation <= 0x14 || operation == 0x16 || operation == 0x17 ||
                        operation == 0x1c || operation == 0x1d;
  switch (v >> 5) {
    case 0:  // RC
    case 5:  // XRC
      return reliable;
    case 1:  // UC
      return connected;
    case 3:  // UD
      return operation == 4 || operation == 5;
    case 4:  // CNP
      return operation == 1;
    case 6:  // manufacturers': ours
      return operation <= 1;
    default:  // RD (never on RoCE), reserved
      return false;
  }
}

TEST(OpcodeTable, KnowsWhatTheSpecLists) {
  for (unsigned v = 0; v < 256; ++v) {
    EXPECT_EQ(info_of(opcode(v)).known(), in_the_spec(v)) << std::hex << v;
  }
  EXPECT_EQ(known_opcodes().size(), 25u + 12u + 2u + 1u + 25u + 2u);
}

TEST(OpcodeTable, RowsAreDistinct) {
  std::set<std::string_view> names;
  std::set<Opcode> opcodes;
  for (const detail::Row& row : detail::kRows) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(opcodes.insert(row.opcode).second) << row.name;
    EXPECT_NE(row.kind, Kind::none) << row.name;
  }
}

TEST(OpcodeTable, ServiceIsTheUpperThreeBits) {
  constexpr std::array<std::string_view, 7> kNames{"RC ", "UC ",  "RD ", "UD ",
                                                   "CNP", "XRC ", "MARK"};
  for (const Opcode op : known_opcodes()) {
    const auto bits = static_cast<std::size_t>(op) >> 5;
    EXPECT_EQ(static_cast<std::size_t>(info_of(op).service), bits) << info_of(op).name;
    EXPECT_TRUE(info_of(op).name.starts_with(kNames.at(bits))) << info_of(op).name;
  }
}

TEST(OpcodeTable, HeadersFollowTheKind) {
  for (const Opcode op : known_opcodes()) {
    const OpcodeInfo& info = info_of(op);
    const bool atomic = info.kind == Kind::compare_swap || info.kind == Kind::fetch_add;
    EXPECT_EQ(info.reth, info.kind == Kind::read_request || info.kind == Kind::flush ||
                             info.kind == Kind::atomic_write ||
                             (info.kind == Kind::write && info.first))
        << info.name;
    EXPECT_EQ(info.aeth, info.kind == Kind::acknowledge || info.kind == Kind::atomic_acknowledge ||
                             (info.kind == Kind::read_response && (info.first || info.last)))
        << info.name;
    EXPECT_EQ(info.atomic_eth, atomic) << info.name;
    EXPECT_EQ(info.atomic_ack_eth, info.kind == Kind::atomic_acknowledge) << info.name;
    EXPECT_EQ(info.feth, info.kind == Kind::flush) << info.name;
    EXPECT_EQ(info.deth, info.service == Service::ud || info.is_mark()) << info.name;
    EXPECT_EQ(info.xrceth, info.service == Service::xrc && info.is_request()) << info.name;
    EXPECT_EQ(info.reserved, info.kind == Kind::cnp) << info.name;
    EXPECT_EQ(info.immediate, info.name.ends_with("with immediate")) << info.name;
    EXPECT_EQ(info.ieth, info.name.ends_with("with invalidate")) << info.name;
    if (info.trailer() != Trailer::none) {
      EXPECT_TRUE(info.last) << info.name;
      EXPECT_TRUE(info.kind == Kind::send || (info.kind == Kind::write && info.immediate))
          << info.name;
    }
  }
}

/// XRC is RC with an XRCETH in the requests; UC is the part of RC that nobody answers.
TEST(OpcodeTable, ServicesAgree) {
  for (unsigned v = 0; v < 32; ++v) {
    const OpcodeInfo& rc = info_of(opcode(v));
    const OpcodeInfo& uc = info_of(opcode(0x20 + v));
    const OpcodeInfo& xrc = info_of(opcode(0xa0 + v));
    EXPECT_EQ(xrc.kind, rc.kind) << v;
    EXPECT_EQ(xrc.part(), rc.part()) << v;
    EXPECT_EQ(xrc.extension_size(), rc.extension_size() + (rc.is_request() ? Xrceth::kSize : 0))
        << v;
    if (!uc.known()) continue;
    EXPECT_EQ(uc.kind, rc.kind) << v;
    EXPECT_EQ(uc.part(), rc.part()) << v;
    EXPECT_EQ(uc.trailer(), rc.trailer()) << v;
    EXPECT_EQ(uc.extension_size(), rc.extension_size()) << v;
  }
}

TEST(OpcodeTable, EveryPacketIsARequestOrAResponseOrBesideThem) {
  std::size_t requests = 0;
  std::size_t responses = 0;
  for (const Opcode op : known_opcodes()) {
    const OpcodeInfo& info = info_of(op);
    requests += info.is_request() ? 1u : 0u;
    responses += info.is_response() ? 1u : 0u;
    const bool cnp = info.kind == Kind::cnp;
    EXPECT_EQ(info.is_request() + info.is_response() + cnp + info.is_mark(), 1) << info.name;
  }
  EXPECT_EQ(requests, 19u + 12u + 2u + 19u);
  EXPECT_EQ(responses, 6u + 6u);
}

TEST(OpcodeTable, NamesSayWhereInTheMessage) {
  for (const Opcode op : known_opcodes()) {
    const OpcodeInfo& info = info_of(op);
    const auto says = [&info](std::string_view word) {
      return info.name.find(word) != info.name.npos;
    };
    const bool parted = says("SEND") || says(" WRITE") || says("READ response");
    const bool single = says("only") || !parted;
    EXPECT_EQ(info.first, says("first") || single) << info.name;
    EXPECT_EQ(info.last, says("last") || single) << info.name;
    EXPECT_EQ(!info.first && !info.last, says("middle")) << info.name;
  }
}

TEST(OpcodeTable, SizesOfTheHeaders) {
  EXPECT_EQ(header_size(Opcode::rc_send_only), 12u);
  EXPECT_EQ(header_size(Opcode::rc_send_only_imm), 16u);
  EXPECT_EQ(header_size(Opcode::rc_send_only_inv), 16u);
  EXPECT_EQ(header_size(Opcode::rc_write_first), 28u);
  EXPECT_EQ(header_size(Opcode::rc_write_only_imm), 32u);
  EXPECT_EQ(header_size(Opcode::rc_read_request), 28u);
  EXPECT_EQ(header_size(Opcode::rc_read_response_middle), 12u);
  EXPECT_EQ(header_size(Opcode::rc_acknowledge), 16u);
  EXPECT_EQ(header_size(Opcode::rc_atomic_acknowledge), 24u);
  EXPECT_EQ(header_size(Opcode::rc_compare_swap), 40u);
  EXPECT_EQ(header_size(Opcode::rc_fetch_add), 40u);
  EXPECT_EQ(header_size(Opcode::rc_flush), 32u);
  EXPECT_EQ(header_size(Opcode::rc_atomic_write), 28u);
  EXPECT_EQ(header_size(Opcode::uc_write_only_imm), 32u);
  EXPECT_EQ(header_size(Opcode::ud_send_only), 20u);
  EXPECT_EQ(header_size(Opcode::ud_send_only_imm), 24u);
  EXPECT_EQ(header_size(Opcode::cnp), 28u);
  EXPECT_EQ(header_size(Opcode::xrc_send_middle), 16u);
  EXPECT_EQ(header_size(Opcode::xrc_flush), 36u);
  EXPECT_EQ(header_size(Opcode::xrc_compare_swap), 44u);
  for (unsigned v = 0; v < 256; ++v) EXPECT_LE(header_size(opcode(v)), kMaxHeaderSize) << v;
}

TEST(OpcodeFor, ReadsTheTableBackwards) {
  for (const Opcode op : known_opcodes()) {
    const OpcodeInfo& info = info_of(op);
    EXPECT_EQ(opcode_for(info.service, info.kind, info.part(), info.trailer()), op) << info.name;
  }
}

TEST(OpcodeFor, TrailersShowInTheLastPacketOnly) {
  constexpr Part kFirst{.first = true, .last = false};
  constexpr Part kMiddle{.first = false, .last = false};
  constexpr Part kLast{.first = false, .last = true};
  static_assert(opcode_for(Service::rc, Kind::send, kFirst, Trailer::invalidate) ==
                Opcode::rc_send_first);
  static_assert(opcode_for(Service::xrc, Kind::write, kMiddle, Trailer::immediate) ==
                Opcode::xrc_write_middle);
  static_assert(opcode_for(Service::uc, Kind::write, kLast, Trailer::immediate) ==
                Opcode::uc_write_last_imm);
}

/// All combinations: those of the table, those before a trailer, nothing else.
TEST(OpcodeFor, GivesNothingThatTheServiceLacks) {
  std::size_t found = 0;
  for (unsigned s = 0; s <= static_cast<unsigned>(Service::own); ++s) {
    for (unsigned k = 0; k <= static_cast<unsigned>(Kind::mark_reached); ++k) {
      for (unsigned part = 0; part < 4; ++part) {
        for (unsigned t = 0; t <= static_cast<unsigned>(Trailer::invalidate); ++t) {
          const auto service = static_cast<Service>(s);
          const auto kind = static_cast<Kind>(k);
          const Part p{.first = (part & 1) != 0, .last = (part & 2) != 0};
          const auto trailer = static_cast<Trailer>(t);
          const auto op = opcode_for(service, kind, p, trailer);
          if (!op) continue;
          ++found;
          const OpcodeInfo& info = info_of(*op);
          EXPECT_EQ(info.service, service) << info.name;
          EXPECT_EQ(info.kind, kind) << info.name;
          EXPECT_EQ(info.part(), p) << info.name;
          EXPECT_EQ(info.trailer(), p.last ? trailer : Trailer::none) << info.name;
        }
      }
    }
  }
  // First and middle of: SEND with immediate, SEND with invalidate, WRITE with immediate of RC
  // and XRC; the two with immediate of UC.
  EXPECT_EQ(found, 67u + 2 * 6 + 4);

  constexpr Part kFirst{.first = true, .last = false};
  constexpr Part kOnly{.first = true, .last = true};
  EXPECT_EQ(opcode_for(Service::uc, Kind::read_request, kOnly), std::nullopt);
  EXPECT_EQ(opcode_for(Service::uc, Kind::send, kFirst, Trailer::invalidate), std::nullopt);
  EXPECT_EQ(opcode_for(Service::ud, Kind::send, kFirst), std::nullopt);
  EXPECT_EQ(opcode_for(Service::rc, Kind::write, kOnly, Trailer::invalidate), std::nullopt);
}

}  // namespace
}  // namespace verbena::packet
