// The reader of the golden files, on recordings made by hand.

#include "tests/support/pcap.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"

namespace verbena::test {
namespace {

using namespace std::chrono_literals;
using Bytes = std::vector<std::uint8_t>;

struct Format {
  bool big_endian;
  bool nanoseconds;
};

class File {
 public:
  explicit File(Format f) : format_{f} {
    u32(f.nanoseconds ? 0xa1b2'3c4du : 0xa1b2'c3d4u);
    for (const std::uint32_t v : {0x0004'0002u, 0u, 0u, 0xffffu, 1u}) u32(v);
  }
  File& record(std::uint32_t seconds, std::uint32_t fraction, const Bytes& frame) {
    const auto size = static_cast<std::uint32_t>(frame.size());
    for (const std::uint32_t v : {seconds, fraction, size, size}) u32(v);
    bytes_.insert(bytes_.end(), frame.begin(), frame.end());
    return *this;
  }
  [[nodiscard]] const Bytes& bytes() const { return bytes_; }

 private:
  void u32(std::uint32_t v) {
    bytes_.resize(bytes_.size() + 4);
    store_be32(&bytes_[bytes_.size() - 4], format_.big_endian ? v : __builtin_bswap32(v));
  }

  Format format_;
  Bytes bytes_;
};

Bytes ipv4_frame() {
  return {0x02, 0,    0,    0,    0,    1,    0x02, 0, 0,  0,  0, 2, 0x08, 0x00,  // Ethernet
          0x45, 0xb8, 0,    31,   0x12, 0x34, 0x40, 0, 63, 17, 0, 0,              // IPv4
          10,   0,    0,    1,    10,   0,    0,    2,                            //
          0xc0, 0x00, 0x12, 0xb7, 0,    11,   0,    0,                            // UDP
          'a',  'b',  'c',                                                        //
          0,    0,    0};  // Ethernet's padding
}

Bytes ipv6_frame() {
  Bytes b{0x02, 0,    0, 0, 0, 1,  0x02, 0, 0, 0, 0, 2, 0x86, 0xdd,  // Ethernet
          0x6b, 0x80, 0, 0, 0, 10, 17,   64};                        // IPv6
  const auto source = IpAddress::parse("fe80::1")->bytes();
  const auto destination = IpAddress::parse("fe80::2")->bytes();
  b.insert(b.end(), source.begin(), source.end());
  b.insert(b.end(), destination.begin(), destination.end());
  const Bytes udp{0xc0, 0x01, 0x12, 0xb7, 0, 10, 0, 0, 'd', 'e'};
  b.insert(b.end(), udp.begin(), udp.end());
  return b;
}

class PcapFormats : public testing::TestWithParam<Format> {};

TEST_P(PcapFormats, GiveTheSamePackets) {
  File file{GetParam()};
  file.record(7, 5, ipv4_frame()).record(8, 6, ipv6_frame());
  const auto packets = read_pcap(file.bytes());
  ASSERT_TRUE(packets.ok()) << packets.error().message;
  ASSERT_EQ(packets->size(), 2u);

  const Captured& four = (*packets)[0];
  EXPECT_EQ(four.time, GetParam().nanoseconds ? 7s + 5ns : 7s + 5us);
  EXPECT_EQ(four.source.text(), "10.0.0.1");
  EXPECT_EQ(four.destination.text(), "10.0.0.2");
  EXPECT_EQ(four.source_port, 0xc000);
  EXPECT_EQ(four.destination_port, 4791);
  EXPECT_EQ(four.identification, 0x1234);
  EXPECT_EQ(four.traffic_class, 0xb8);
  EXPECT_EQ(four.hop_limit, 63);
  EXPECT_EQ(four.payload, (Bytes{'a', 'b', 'c'}));

  const Captured& six = (*packets)[1];
  EXPECT_EQ(six.source.text(), "fe80::1");
  EXPECT_EQ(six.destination.text(), "fe80::2");
  EXPECT_EQ(six.source_port, 0xc001);
  EXPECT_EQ(six.identification, std::nullopt);
  EXPECT_EQ(six.traffic_class, 0xb8);
  EXPECT_EQ(six.hop_limit, 64);
  EXPECT_EQ(six.payload, (Bytes{'d', 'e'}));
}

INSTANTIATE_TEST_SUITE_P(All, PcapFormats,
                         testing::Values(Format{false, false}, Format{false, true},
                                         Format{true, false}, Format{true, true}));

TEST(Pcap, LeavesOtherProtocolsOut) {
  Bytes arp = ipv4_frame();
  arp[13] = 0x06;
  Bytes tcp = ipv4_frame();
  tcp[14 + 9] = 6;
  const auto packets = read_pcap(File{{}}.record(0, 0, arp).record(0, 0, tcp).bytes());
  ASSERT_TRUE(packets.ok()) << packets.error().message;
  EXPECT_TRUE(packets->empty());
}

TEST(Pcap, CutOffAnywhereIsAnErrorOrFewerPackets) {
  const File file = File{{}}.record(0, 0, ipv4_frame()).record(0, 0, ipv6_frame());
  const std::size_t first_end = 24 + 16 + ipv4_frame().size();
  for (std::size_t size = 0; size < file.bytes().size(); ++size) {
    const Bytes cut{file.bytes().begin(), file.bytes().begin() + static_cast<std::ptrdiff_t>(size)};
    EXPECT_EQ(read_pcap(cut).ok(), size == 24 || size == first_end) << size;
  }
}

TEST(Pcap, ShortSnapshotIsAnError) {
  Bytes cut = ipv4_frame();
  cut.resize(14 + 20 + 8 + 2);
  EXPECT_FALSE(read_pcap(File{{}}.record(0, 0, cut).bytes()).ok());
}

TEST(Pcap, MissingFileIsNamed) {
  const auto packets = read_pcap_file("no/such/file.pcap");
  ASSERT_FALSE(packets.ok());
  EXPECT_NE(packets.error().message.find("no/such/file.pcap"), std::string::npos);
}

}  // namespace
}  // namespace verbena::test
