// The kernel's packets are the reference: ours must have the same bytes.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "packet/frame.h"
#include "packet/grh.h"
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
    {"cm-mckey", 3},
    {"cm-rdma-client", 9},
    {"cm-reject-noport", 2},
    {"cm-rping", 29},
    {"cm-rping-ipv6", 17},
    {"cm-rsocket", 24},
    {"cm-ucmatose", 13},
    {"cm-udaddy-sidr", 6},
    {"perf-write-lat", 20},
    {"rc-bad-range-read", 2},
    {"rc-bad-range-write", 6},
    {"rc-bad-rkey-atomic", 2},
    {"rc-bad-rkey-read", 2},
    {"rc-bad-rkey-write", 2},
    {"rc-cmp-swap", 4},
    {"rc-fetch-add", 4},
    {"rc-loss-atomic", 28},
    {"rc-loss-read", 83},
    {"rc-loss-send", 79},
    {"rc-loss-write", 56},
    {"rc-mixed", 18},
    {"rc-no-perm-write", 2},
    {"rc-no-such-qp", 3},
    {"rc-psn-wrap", 11},
    {"rc-qp-no-read", 2},
    {"rc-read-0", 2},
    {"rc-read-1", 2},
    {"rc-read-4x3000", 16},
    {"rc-read-9000", 10},
    {"rc-read-too-deep", 16},
    {"rc-recv-too-small", 3},
    {"rc-rnr-exceeded", 6},
    {"rc-rnr-nak", 38},
    {"rc-rnr-write-imm", 46},
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
    {"uc-send-1", 1},
    {"uc-send-9000", 9},
    {"uc-send-imm", 1},
    {"uc-write-9000", 9},
    {"uc-write-imm", 3},
    {"ud-bad-qkey", 1},
    {"ud-send-100", 1},
    {"ud-send-1024", 1},
    {"ud-send-imm", 1},
    {"ud-send-ipv6", 1},
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

/// A line of packets.txt: what Wireshark made of the packet. Decimal but for the hexadecimal QP
/// and ICRC.
struct Listed {
  std::uint32_t opcode = 0;
  std::uint32_t destination = 0;
  std::uint32_t psn = 0;
  bool ack_request = false;
  std::uint32_t pad = 0;
  std::string syndrome;  // empty: no AETH
  std::string msn;
  std::uint32_t icrc = 0;
};

/// Columns: number, time, source, destination, UDP source port, opcode, QP, PSN, AckReq, pad,
/// syndrome, MSN, ICRC, words. One space between them; a column may be empty.
Listed listed_from(const std::string& line) {
  std::vector<std::string> columns;
  std::istringstream in{line};
  for (std::string c; std::getline(in, c, ' ');) columns.push_back(c);
  // Wireshark takes the source of a CM request from its primary path, "LID: 65535".
  if (columns.at(2) == "LID:") columns.erase(columns.begin() + 2);
  const auto number = [&columns](std::size_t i) {
    return static_cast<std::uint32_t>(std::stoul(columns.at(i), nullptr, 0));
  };
  return {.opcode = number(5),
          .destination = number(6),
          .psn = number(7),
          .ack_request = number(8) != 0,
          .pad = number(9),
          .syndrome = columns.at(10),
          .msn = columns.at(11),
          .icrc = number(12)};
}

std::vector<Listed> listed(const Recording& r) {
  std::ifstream in{VERBENA_GOLDEN_DIR "/packets.txt"};
  EXPECT_TRUE(in) << "no packets.txt in " VERBENA_GOLDEN_DIR;
  std::vector<Listed> out;
  bool here = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("== ")) {
      here = line == std::string{"== "} + r.name + ".pcap";
    } else if (here) {
      out.push_back(listed_from(line));
    }
  }
  return out;
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

/// "NAME qp 0x000011 psn 0x001000", the start of every line.
std::string line_start(const Listed& l) {
  std::array<char, 40> out{};
  std::snprintf(out.data(), out.size(), " qp 0x%06x psn 0x%06x", l.destination, l.psn);
  return std::string{info_of(static_cast<Opcode>(l.opcode)).name} + out.data();
}

TEST_P(Golden, ReadsAsWiresharkReadsIt) {
  const auto lines = listed(GetParam());
  ASSERT_EQ(lines.size(), packets_.size());
  for (std::size_t i = 0; i < packets_.size(); ++i) {
    const Listed& l = lines[i];
    const auto& bytes = packets_[i].payload;
    const auto parsed = parse(bytes);
    const Packet& p = std::get<Packet>(parsed);
    const std::string line = text(p);
    EXPECT_TRUE(line.starts_with(line_start(l))) << line << "\nexpected " << line_start(l);
    EXPECT_EQ(static_cast<std::uint32_t>(p.bth.opcode), l.opcode) << line;
    EXPECT_EQ(p.bth.destination, Qpn{l.destination}) << line;
    EXPECT_EQ(p.bth.psn, Psn{l.psn}) << line;
    EXPECT_EQ(p.bth.ack_request, l.ack_request) << line;
    EXPECT_EQ(p.bth.pad, l.pad) << line;
    EXPECT_EQ(p.info().aeth, !l.syndrome.empty()) << line;
    if (p.info().aeth) {
      EXPECT_EQ(std::to_string(p.aeth.syndrome.value()), l.syndrome) << line;
      EXPECT_EQ(std::to_string(p.aeth.msn), l.msn) << line;
    }
    EXPECT_EQ(load_be32(&bytes[bytes.size() - kIcrcSize]), l.icrc) << line;
  }
}

std::string test_name(const testing::TestParamInfo<Recording>& r) {
  std::string name = r.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, Golden, testing::ValuesIn(kRecordings), test_name);

/// A recording that covers less than it seems to would prove less than it seems to.
TEST(GoldenSet, HoldsEveryOpcodeThatTheKernelSent) {
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
  EXPECT_EQ(packets, 759u);
  EXPECT_EQ(identified, 731u);  // all but the 28 over IPv6
  // The rxe of Linux 6.1 has no XRC, FLUSH, ATOMIC_WRITE or CNP; no recording holds the others.
  using enum Opcode;
  const std::set<Opcode> unseen{rc_flush,         rc_atomic_write,  cnp,
                                rc_send_last_inv, uc_send_last_imm, uc_write_only,
                                uc_write_only_imm};
  for (unsigned v = 0; v < 256; ++v) {
    const auto op = static_cast<Opcode>(v);
    const OpcodeInfo& info = info_of(op);
    if (!info.known() || info.service == Service::xrc || info.service == Service::own) continue;
    EXPECT_NE(seen.contains(op), unseen.contains(op)) << info.name;
  }
}

/// The list above and the folder hold the same files.
TEST(GoldenSet, ListsEveryRecording) {
  std::set<std::string> names;
  for (const Recording& r : kRecordings) names.insert(r.name);
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator{VERBENA_GOLDEN_DIR}) {
    if (entry.path().extension() == ".pcap") files.insert(entry.path().stem());
  }
  EXPECT_EQ(files, names);
  EXPECT_EQ(names.size(), 62u);
}

/// What the kernel's receiver found in front of the payload began with these bytes.
TEST(GoldenSet, GrhOfIpv6IsTheKernels) {
  const auto packets = read({"ud-send-ipv6", 1});
  ASSERT_EQ(packets.size(), 1u);
  const test::Captured& c = packets[0];
  const Grh grh = grh_of({.source = c.source,
                          .destination = c.destination,
                          .source_port = c.source_port,
                          .traffic_class = c.traffic_class,
                          .hop_limit = c.hop_limit,
                          .bytes = c.payload});
  constexpr std::array<std::uint8_t, 16> kKernels{0x60, 0,    0, 0, 0, 0x84, 0x11, 0x40,
                                                  0xfe, 0x80, 0, 0, 0, 0,    0,    0};
  EXPECT_TRUE(std::equal(kKernels.begin(), kKernels.end(), grh.begin()));
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

TEST(GoldenSet, ReadsAtomicsAndDatagrams) {
  const auto line = [](const char* name, std::size_t i) {
    const auto packets = read({name, 0});
    return text(std::get<Packet>(parse(packets.at(i).payload)));
  };
  EXPECT_EQ(line("rc-fetch-add", 0),
            "RC FETCH_ADD qp 0x000355 psn 0x001000 ackreq va 0x2ca6f000 rkey 0x0001b5a1 add 0x5");
  EXPECT_EQ(line("rc-fetch-add", 1),
            "RC ATOMIC ACKNOWLEDGE qp 0x0000e9 psn 0x001000 ack msn 1 original 0x1122334455667788");
  EXPECT_EQ(line("rc-cmp-swap", 0),
            "RC COMPARE_SWAP qp 0x000356 psn 0x001000 ackreq va 0x2ca6f000 rkey 0x0001b676 compare "
            "0x1122334455667788 swap 0xcafebabedeadbeef");
  EXPECT_EQ(line("ud-send-imm", 0),
            "UD SEND only with immediate qp 0x000361 psn 0x001000 from 0x0000f5 qkey 0x11111111 "
            "imm 0x12345600 payload 33");
}

}  // namespace
}  // namespace verbena::packet
