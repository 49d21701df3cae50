// The page of a report: the table of header fields says what src/packet encodes, the columns hold
// the whole model, and no text of a trace becomes part of the page.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "packet/mad.h"
#include "tests/unit/tools/report_models.h"
#include "tools/report/compress.h"
#include "tools/report/header_layout.h"
#include "tools/report/page.h"
#include "tools/report/page_columns.h"
#include "tools/report/page_parts.h"
#include "tools/report/rules.h"

namespace verbena::report {
namespace {

using packet::Opcode;
using Bytes = std::vector<std::uint8_t>;

/// Bits [offset, offset + width) as a number; of at most 64.
std::uint64_t bits_at(std::span<const std::uint8_t> bytes, std::size_t offset, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t i = offset; i < offset + width; ++i) {
    value = (value << 1) | ((bytes[i / 8] >> (7 - i % 8)) & 1u);
  }
  return value;
}

const Header& header_of(std::string_view name) {
  const auto found = std::ranges::find(headers(), name, &Header::name);
  EXPECT_NE(found, headers().end()) << name;
  return *found;
}

packet::Packet packet_of(Opcode opcode) {
  packet::Packet p;
  p.bth = {.opcode = opcode,
           .solicited = true,
           .migration = false,
           .pad = 2,
           .pkey = 0x8001,
           .fecn = true,
           .becn = false,
           .destination = Qpn{0x123456},
           .ack_request = true,
           .psn = Psn{0xabcdef}};
  p.xrceth = {0x445566};
  p.deth = {0x80010203, Qpn{0x778899}};
  p.feth = {packet::Selectivity::region, true, false};
  p.reth = {0x1122334455667788, Key{0xaabbccdd}, 0x01020304};
  p.atomic_eth = {0x8877665544332211, Key{0x0badcafe}, 0x1111222233334444, 0x5555666677778888};
  p.aeth = {packet::Syndrome::nak(packet::NakCode::remote_access_error), 0x0c0d0e};
  p.atomic_ack_eth = {0x99aabbccddeeff00};
  p.immediate = {0xde, 0xad, 0xbe, 0xef};
  p.ieth = {Key{0x13579bdf}};
  return p;
}

/// What the fields of packet_of() have to show.
const std::map<std::pair<std::string_view, std::string_view>, std::uint64_t>& expected() {
  static const std::map<std::pair<std::string_view, std::string_view>, std::uint64_t> kValues{
      {{"BTH", "solicited event"}, 1},
      {{"BTH", "migrated"}, 0},
      {{"BTH", "pad"}, 2},
      {{"BTH", "transport version"}, 0},
      {{"BTH", "P_Key"}, 0x8001},
      {{"BTH", "FECN"}, 1},
      {{"BTH", "BECN"}, 0},
      {{"BTH", "destination QP"}, 0x123456},
      {{"BTH", "acknowledge request"}, 1},
      {{"BTH", "PSN"}, 0xabcdef},
      {{"XRCETH", "XRC SRQ"}, 0x445566},
      {{"DETH", "Q_Key"}, 0x80010203},
      {{"DETH", "source QP"}, 0x778899},
      {{"FETH", "selectivity"}, 1},
      {{"FETH", "persistence"}, 0},
      {{"FETH", "global visibility"}, 1},
      {{"RETH", "virtual address"}, 0x1122334455667788},
      {{"RETH", "rkey"}, 0xaabbccdd},
      {{"RETH", "length"}, 0x01020304},
      {{"AtomicETH", "virtual address"}, 0x8877665544332211},
      {{"AtomicETH", "rkey"}, 0x0badcafe},
      {{"AtomicETH", "swap or add"}, 0x1111222233334444},
      {{"AtomicETH", "compare"}, 0x5555666677778888},
      {{"AETH", "type"}, 3},
      {{"AETH", "value"}, 2},
      {{"AETH", "MSN"}, 0x0c0d0e},
      {{"AtomicAckETH", "original value"}, 0x99aabbccddeeff00},
      {{"ImmDt", "immediate data"}, 0xdeadbeef},
      {{"IETH", "rkey to invalidate"}, 0x13579bdf},
  };
  return kValues;
}

TEST(HeaderLayout, FieldsOfEveryOpcodeAreWhatIsEncoded) {
  std::size_t opcodes = 0;
  std::set<std::pair<std::string_view, std::string_view>> compared;
  for (unsigned i = 0; i < 256; ++i) {
    const auto opcode = static_cast<Opcode>(i);
    const auto names = headers_of(opcode);
    ASSERT_EQ(names.empty(), !packet::info_of(opcode).known()) << i;
    if (names.empty()) continue;
    ++opcodes;
    Bytes bytes(packet::header_size(opcode));
    packet::encode_headers(packet_of(opcode), bytes);
    std::size_t at = 0;
    for (const std::string_view name : names) {
      const Header& header = header_of(name);
      ASSERT_LE(at + header.size, bytes.size()) << i << ' ' << name;
      for (const Field& f : header.fields) {
        const auto value = bits_at(bytes, at * 8 + f.offset, f.width);
        const auto wanted = f.name == "opcode"     ? i
                            : f.name == "reserved" ? 0
                                                   : expected().at({name, f.name});
        EXPECT_EQ(value, wanted) << packet::info_of(opcode).name << ' ' << name << ' ' << f.name;
        compared.emplace(name, f.name);
      }
      at += header.size;
    }
    EXPECT_EQ(at, bytes.size()) << packet::info_of(opcode).name;
  }
  EXPECT_GT(opcodes, 60u);
  for (const auto& [field, value] : expected())
    EXPECT_TRUE(compared.contains(field)) << field.second;
}

TEST(HeaderLayout, FieldsFillTheirHeaderWithoutHoles) {
  for (const Header& header : headers()) {
    std::size_t at = 0;
    for (const Field& f : header.fields) {
      EXPECT_EQ(f.offset, at) << header.name << ' ' << f.name;
      at += f.width;
    }
    EXPECT_EQ(at, std::size_t{header.size} * 8) << header.name;
  }
}

TEST(HeaderLayout, ChoicesHaveANameForEachValue) {
  for (const Header& header : headers()) {
    for (const Field& f : header.fields) {
      if (f.print != Print::choice) continue;
      EXPECT_EQ(std::ranges::count(f.names, '|') + 1, 1 << f.width) << f.name;
    }
  }
}

TEST(HeaderLayout, ManagementDatagrams) {
  Bytes bytes(packet::MadHeader::kSize);
  packet::encode_mad_header({.base_version = 1,
                             .management_class = 7,
                             .class_version = 2,
                             .method = 3,
                             .status = 0x0405,
                             .class_specific = 0x0607,
                             .transaction = 0x1020304050607080,
                             .attribute = 0x0010,
                             .modifier = 0x0a0b0c0d},
                            bytes);
  const std::uint64_t wanted[] = {1,    7, 2,         3, 0x0405, 0x0607, 0x1020304050607080,
                                  0x10, 0, 0x0a0b0c0d};
  const Header& header = header_of("MAD");
  ASSERT_EQ(header.fields.size(), std::size(wanted));
  for (std::size_t i = 0; i < std::size(wanted); ++i) {
    EXPECT_EQ(bits_at(bytes, header.fields[i].offset, header.fields[i].width), wanted[i])
        << header.fields[i].name;
  }
}

// ---------------------------------------------------------------- rules

Event packet_event(Opcode opcode, std::uint32_t bytes, std::uint8_t syndrome = 0x1f) {
  testing::ModelBuilder b{1};
  b.conversation(1, 2, "a");
  return b.packet(0, Side::left, opcode, 5, bytes, syndrome);
}

std::string_view number_of(const Event& e) { return rules()[rule_of(e)].number; }

TEST(Rules, GoByWhatBecameOfThePacket) {
  Event e = packet_event(Opcode::rc_write_first, 1024);
  EXPECT_EQ(number_of(e), "C9-81, C9-104, C9-112");
  e.flags.lost = true;
  EXPECT_EQ(number_of(e), "IBA 9.7.6.1.3");
  e.flags.again = true;
  EXPECT_EQ(number_of(e), "IBA 9.7.6.1.1");
  e.flags.duplicate = true;
  EXPECT_EQ(number_of(e), "C9-105 ff.");
  e.flags.dropped = true;
  EXPECT_EQ(number_of(e), "C9-7 ff.");
}

TEST(Rules, OfRefusals) {
  using packet::NakCode;
  using packet::Syndrome;
  const auto of = [](Syndrome s) {
    Event e = packet_event(Opcode::rc_acknowledge, 0, s.value());
    e.flags.nak = s.type() == Syndrome::Type::nak;
    e.flags.rnr = s.type() == Syndrome::Type::rnr_nak;
    return number_of(e);
  };
  EXPECT_EQ(of(Syndrome::nak(NakCode::psn_sequence_error)), "IBA 9.7.5.2.8");
  EXPECT_EQ(of(Syndrome::nak(NakCode::invalid_request)), "C9-72 ff., C9-81, C9-90, C9-97 ff.");
  EXPECT_EQ(of(Syndrome::nak(NakCode::remote_access_error)), "C9-104, C9-112");
  EXPECT_EQ(of(Syndrome::rnr_nak(12)), "C9-86");
  EXPECT_EQ(of(Syndrome::ack()), "IBA 9.7.5");
}

TEST(Rules, ACutOffNakHasNone) {
  Event e = packet_event(Opcode::rc_acknowledge, 0, 0x60);
  e.flags.nak = true;
  e.headers.resize(12);
  EXPECT_EQ(rule_of(e), 0);
}

TEST(Rules, OfRetriesAndCompletions) {
  Event e;
  e.kind = EventKind::retry;
  e.what = "rnr_nak";
  EXPECT_EQ(number_of(e), "C9-86");
  e.what = "timeout";
  EXPECT_EQ(number_of(e), "IBA 9.7.6.1.3");
  e.what = "early";
  EXPECT_EQ(number_of(e), "");
  EXPECT_NE(rule_of(e), 0);
  e.kind = EventKind::completion;
  e.what = "SUCCESS";
  EXPECT_EQ(rule_of(e), 0);
}

/// Nobody invents a number: each is cited in src/ or docs/conformance.md.
TEST(Rules, NumbersAreThoseThatTheSourcesCite) {
  const std::filesystem::path root = std::filesystem::path{VERBENA_GOLDEN_DIR} / "../..";
  std::stringstream cited;
  for (const auto& entry : std::filesystem::recursive_directory_iterator{root / "src"}) {
    if (entry.is_regular_file()) cited << std::ifstream{entry.path()}.rdbuf();
  }
  cited << std::ifstream{root / "docs/conformance.md"}.rdbuf();
  const std::string text = cited.str();
  for (const Rule& rule : rules()) {
    std::istringstream words{std::string{rule.number}};
    for (std::string word; words >> word;) {
      if (word == "IBA" || word.starts_with("ff.")) continue;
      if (word.back() == ',') word.pop_back();
      EXPECT_NE(text.find(word), std::string::npos) << word << " of: " << rule.text;
    }
  }
}

// ---------------------------------------------------------------- bytes of the page

/// As page/columns.js does it.
Bytes decompress(std::string_view from, std::size_t size) {
  Bytes out;
  std::size_t at = 0;
  const auto byte = [&] { return static_cast<std::uint8_t>(from.at(at++)); };
  const auto length = [&](std::size_t nibble) {
    if (nibble < 15) return nibble;
    std::uint8_t more = 0;
    do {
      more = byte();
      nibble += more;
    } while (more == 255);
    return nibble;
  };
  while (at < from.size()) {
    const std::uint8_t token = byte();
    for (std::size_t n = length(token >> 4); n > 0; --n) out.push_back(byte());
    if (at == from.size()) break;
    std::size_t distance = byte();
    distance |= std::size_t{byte()} << 8;
    EXPECT_TRUE(distance > 0 && distance <= out.size());
    for (std::size_t n = length(token & 15) + 4; n > 0; --n)
      out.push_back(out[out.size() - distance]);
  }
  EXPECT_EQ(out.size(), size);
  return out;
}

TEST(Compress, ComesBackAsItWas) {
  std::mt19937_64 dice{11};
  for (const std::size_t size : {0u, 1u, 4u, 5u, 12u, 13u, 14u, 100u, 5000u, 300'000u}) {
    for (const unsigned values : {1u, 2u, 5u, 256u}) {
      Bytes bytes(size);
      std::ranges::generate(bytes, [&] { return static_cast<std::uint8_t>(dice() % values); });
      EXPECT_EQ(decompress(compress(bytes), size), bytes) << size << ' ' << values;
    }
  }
}

TEST(Compress, WhatIsBeyondTheWindowIsLeftAlone) {
  Bytes bytes(200'000);
  std::mt19937_64 dice{12};
  std::generate_n(bytes.begin(), 70'000, [&] { return static_cast<std::uint8_t>(dice()); });
  std::copy_n(bytes.begin(), 70'000, bytes.begin() + 70'000);
  EXPECT_EQ(decompress(compress(bytes), bytes.size()), bytes);
}

TEST(Base64, PadsAsTheRfcSays) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("\xff\xfe\xfd\xfc"), "//79/A==");
}

TEST(PageColumns, RepeatedPacketsTakeLittleRoom) {
  const Model model = testing::lossy_model(4, 500);
  const auto bytes = columns_of(model);
  EXPECT_GT(model.events.size(), 15'000u);
  EXPECT_LT(compress(bytes).size(), model.events.size() * 16);
}

// ---------------------------------------------------------------- the page

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Page, NoTextOfATraceStandsInIt) {
  Model model = testing::lossy_model(1, 3);
  const std::string hostile =
      "</script><script>alert(1)</script>\u2028<img src=x onerror=alert(2)>\xff";
  model.conversations[0].left.program = hostile;
  model.conversations[0].type = hostile;
  model.sources[0].file = hostile;
  model.remarks.push_back(hostile);
  model.events[0].what = hostile;
  model.events[9].note = hostile;
  model.requests[0].wr_id = hostile;
  const std::string text = page(model);
  EXPECT_EQ(text.find("alert"), std::string::npos);
  EXPECT_EQ(count_of(text, "</script"), 2u);
}

TEST(Page, IsWholeAndAsksForNothingElse) {
  const std::string text = page(testing::lossy_model(1, 3));
  EXPECT_TRUE(text.starts_with("<!doctype html>"));
  EXPECT_TRUE(text.ends_with("</html>\n"));
  EXPECT_NE(text.find("default-src 'none'"), std::string::npos);
  EXPECT_NE(text.find(page_script().sha256), std::string::npos);
  for (const char* part :
       {"@STYLE", "@SCRIPT", "@MODEL@", "@SIZE@", "http://", "https://", "url("}) {
    EXPECT_EQ(text.find(part), std::string::npos) << part;
  }
}

TEST(Page, OfNothing) { EXPECT_TRUE(page(Model{}).ends_with("</html>\n")); }

TEST(PageParts, NothingInThemEndsTheirElement) {
  EXPECT_EQ(page_script().text.find("</"), std::string_view::npos);
  EXPECT_EQ(page_style().text.find('<'), std::string_view::npos);
  EXPECT_EQ(page_script().sha256.size(), 44u);
}

}  // namespace
}  // namespace verbena::report
