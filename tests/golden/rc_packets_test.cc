// The kernel's packets are the reference: ours must have the same bytes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "packet/frame.h"
#include "packet/icrc.h"
#include "packet/packet.h"
#include "packet/print.h"
#include "tests/support/pcap.h"

#ifndef VERBENA_GOLDEN_DIR
#define VERBENA_GOLDEN_DIR "tests/golden"
#endif

namespace verbena::packet {
namespace {

struct Recording {
  const char* name;
  std::size_t packets;
};

void PrintTo(const Recording& r, std::ostream* out) { *out << r.name; }

constexpr Recording kRecordings[] = {
    {"rc-read-0", 2},
    {"rc-read-1", 2},
    {"rc-read-4x3000", 16},
    {"rc-read-9000", 10},
    {"rc-read-too-deep", 16},
    {"rc-send-0", 2},
    {"rc-send-1", 2},
    {"rc-send-1024", 2},
    {"rc-send-1025", 3},
    {"rc-send-9000", 10},
    {"rc-send-9000-mtu256", 37},
    {"rc-send-9000-mtu4096", 4},
    {"rc-send-burst", 40},
    {"rc-send-fence", 5},
    {"rc-send-imm", 6},
    {"rc-send-inv", 2},
    {"rc-send-ipv6", 10},
    {"rc-send-pads", 16},
    {"rc-send-solicited", 4},
    {"rc-write-0", 2},
    {"rc-write-100", 2},
    {"rc-write-9000", 10},
    {"rc-write-imm", 8},
};

std::vector<test::Captured> read(const Recording& r) {
  auto packets = test::read_pcap_file(std::string{VERBENA_GOLDEN_DIR} + "/" + r.name + ".pcap");
  if (!packets) {
    ADD_FAILURE() << packets.error().message;
    return {};
  }
  return *std::move(packets);
}

std::span<const std::uint8_t> without_icrc(const test::Captured& c) {
  return std::span{c.payload}.first(c.payload.size() - kIcrcSize);
}

IcrcHeaders headers_of(const test::Captured& c) {
  return {c.source, c.destination, c.source_port, c.destination_port, 0};
}

class Golden : public testing::TestWithParam<Recording> {
 protected:
  std::vector<test::Captured> packets_ = read(GetParam());
};

TEST_P(Golden, IsComplete) {
  EXPECT_EQ(packets_.size(), GetParam().packets);
  for (const auto& c : packets_) EXPECT_EQ(c.destination_port, kRocePort);
}

TEST_P(Golden, ParsesAndEncodesToTheSameBytes) {
  for (const auto& c : packets_) {
    const auto parsed = parse(c.payload);
    ASSERT_TRUE(std::holds_alternative<Packet>(parsed)) << text(std::get<Malformed>(parsed));
    const Packet& p = std::get<Packet>(parsed);

    const auto expected = without_icrc(c);
    ASSERT_EQ(p.bth.pad, pad_of(p.payload.size())) << text(p);
    ASSERT_EQ(frame_size(p.bth.opcode, p.payload.size()), expected.size()) << text(p);
    std::vector<std::uint8_t> encoded(expected.size());
    EXPECT_EQ(encode(p, encoded), expected.size());
    EXPECT_EQ(encoded, (std::vector<std::uint8_t>{expected.begin(), expected.end()})) << text(p);
  }
}

TEST_P(Golden, IdentificationIsRecovered) {
  for (const auto& c : packets_) {
    const auto frame = without_icrc(c);
    const std::uint32_t received = load_icrc(c.payload.data() + frame.size());

    const auto recovered = recover_identification(headers_of(c), frame, received);
    ASSERT_TRUE(recovered.has_value());
    EXPECT_EQ(*recovered, c.identification.value_or(0));

    IcrcHeaders headers = headers_of(c);
    headers.identification = *recovered;
    EXPECT_EQ(icrc(headers, frame), received);
  }
}

std::string test_name(const testing::TestParamInfo<Recording>& r) {
  std::string name = r.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Rc, Golden, testing::ValuesIn(kRecordings), test_name);

/// A recording that covers less than it seems to would prove less than it seems to.
TEST(GoldenSet, HoldsEveryRcOpcodeThatWeKnow) {
  std::size_t packets = 0;
  std::size_t identified = 0;
  std::set<Opcode> seen;
  for (const Recording& r : kRecordings) {
    for (const auto& c : read(r)) {
      ++packets;
      if (c.identification.value_or(0) != 0) ++identified;
      seen.insert(static_cast<Opcode>(c.payload.at(0)));
    }
  }
  EXPECT_EQ(packets, 211u);
  EXPECT_EQ(identified, 201u);  // all but those of rc-send-ipv6
  // No recording ends a message of several packets with an invalidation.
  seen.insert(Opcode::rc_send_last_inv);
  for (unsigned op = 0; op < 256; ++op) {
    const OpcodeInfo& info = info_of(static_cast<Opcode>(op));
    if (!info.known() || info.service != Service::rc) continue;
    EXPECT_TRUE(seen.contains(static_cast<Opcode>(op))) << info.name;
  }
}

TEST(GoldenSet, ReadsAsPeopleWouldSayIt) {
  std::vector<std::string> lines;
  const auto packets = read({"rc-write-9000", 10});
  for (const auto& c : packets) lines.push_back(text(std::get<Packet>(parse(c.payload))));
  ASSERT_EQ(lines.size(), 10u);
  EXPECT_EQ(lines[0],
            "RC WRITE first qp 0x00034f psn 0x001000 va 0x2ca6f000 rkey 0x0001afb1 len 9000 "
            "payload 1024");
  EXPECT_EQ(lines[1], "RC WRITE middle qp 0x00034f psn 0x001001 payload 1024");
  EXPECT_EQ(lines[8], "RC WRITE last qp 0x00034f psn 0x001008 ackreq payload 808");
  EXPECT_EQ(lines[9], "RC ACKNOWLEDGE qp 0x0000e3 psn 0x001008 ack msn 1");
}

}  // namespace
}  // namespace verbena::packet
