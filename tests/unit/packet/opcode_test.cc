#include "packet/opcode.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "packet/packet.h"

namespace verbena::packet {
namespace {

constexpr Opcode opcode(unsigned v) { return static_cast<Opcode>(v); }

TEST(OpcodeTable, KnowsTheOpcodesOfRc) {
  std::set<std::string_view> names;
  for (unsigned v = 0; v < 256; ++v) {
    const OpcodeInfo& info = info_of(opcode(v));
    EXPECT_EQ(info.known(), v <= 0x11 || v == 0x16 || v == 0x17) << v;
    if (info.known()) {
      EXPECT_TRUE(names.insert(info.name).second) << info.name;
      EXPECT_NE(info.kind, Kind::none) << info.name;
    }
  }
}

TEST(OpcodeTable, HeadersFollowTheKind) {
  for (unsigned v = 0; v < 256; ++v) {
    const OpcodeInfo& info = info_of(opcode(v));
    if (!info.known()) continue;
    EXPECT_EQ(info.reth,
              info.kind == Kind::read_request || (info.kind == Kind::write && info.first))
        << info.name;
    EXPECT_EQ(info.aeth, info.kind == Kind::acknowledge ||
                             (info.kind == Kind::read_response && (info.first || info.last)))
        << info.name;
    EXPECT_EQ(info.immediate, info.name.ends_with("with immediate")) << info.name;
    EXPECT_EQ(info.ieth, info.name.ends_with("with invalidate")) << info.name;
    const bool extra = info.immediate || info.ieth;
    EXPECT_TRUE(!extra || (info.last && info.is_request())) << info.name;
    EXPECT_LE(header_size(opcode(v)), kMaxHeaderSize) << info.name;
  }
}

TEST(OpcodeTable, NamesSayWhereInTheMessage) {
  for (unsigned v = 0; v < 256; ++v) {
    const OpcodeInfo& info = info_of(opcode(v));
    if (!info.known()) continue;
    const auto says = [&info](std::string_view word) {
      return info.name.find(word) != info.name.npos;
    };
    const bool single = says("only") || says("READ request") || says("ACKNOWLEDGE");
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
}

}  // namespace
}  // namespace verbena::packet
