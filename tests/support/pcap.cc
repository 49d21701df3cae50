#include "tests/support/pcap.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>
#include <variant>

#include "base/bytes.h"

namespace verbena::test {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::uint32_t kMagicMicroseconds = 0xa1b2'c3d4;
constexpr std::uint32_t kMagicNanoseconds = 0xa1b2'3c4d;
constexpr std::size_t kFileHeaderSize = 24;
constexpr std::size_t kRecordHeaderSize = 16;
constexpr std::uint32_t kLinkTypeEthernet = 1;

constexpr std::size_t kEthernetSize = 14;
constexpr std::uint16_t kEtherTypeIpv4 = 0x0800;
constexpr std::uint16_t kEtherTypeIpv6 = 0x86dd;
constexpr std::size_t kIpv4MinSize = 20;
constexpr std::size_t kIpv6Size = 40;
constexpr std::size_t kUdpSize = 8;
constexpr std::uint8_t kUdpProtocol = 17;

/// How the file's own numbers are written.
struct Format {
  bool big_endian = false;
  bool nanoseconds = false;

  [[nodiscard]] std::uint32_t u32(const std::uint8_t* p) const {
    const std::uint32_t big = load_be32(p);
    return big_endian ? big : __builtin_bswap32(big);
  }
};

std::optional<Format> format_of(const std::uint8_t* magic) {
  for (const bool big : {false, true}) {
    for (const bool nano : {false, true}) {
      const Format f{big, nano};
      if (f.u32(magic) == (nano ? kMagicNanoseconds : kMagicMicroseconds)) return f;
    }
  }
  return std::nullopt;
}

enum class Skip { other_protocol, not_whole };

std::variant<Captured, Skip> parse_udp(Captured c, Bytes b) {
  if (b.size() < kUdpSize) return Skip::not_whole;
  const std::size_t length = load_be16(&b[4]);
  if (length < kUdpSize || length > b.size()) return Skip::not_whole;
  c.source_port = load_be16(&b[0]);
  c.destination_port = load_be16(&b[2]);
  const Bytes payload = b.first(length).subspan(kUdpSize);
  c.payload.assign(payload.begin(), payload.end());
  return c;
}

std::variant<Captured, Skip> parse_ipv4(Captured c, Bytes b) {
  if (b.size() < kIpv4MinSize) return Skip::not_whole;
  if (b[9] != kUdpProtocol) return Skip::other_protocol;
  const std::size_t header = std::size_t{b[0] & 0x0fu} * 4;
  const std::size_t length = load_be16(&b[2]);
  const bool fragment = (load_be16(&b[6]) & 0x3fff) != 0;
  if (header < kIpv4MinSize || length < header || length > b.size() || fragment) {
    return Skip::not_whole;
  }
  c.traffic_class = b[1];
  c.identification = load_be16(&b[4]);
  c.hop_limit = b[8];
  c.source = IpAddress::v4({b[12], b[13], b[14], b[15]});
  c.destination = IpAddress::v4({b[16], b[17], b[18], b[19]});
  return parse_udp(std::move(c), b.first(length).subspan(header));
}

IpAddress ipv6_at(const std::uint8_t* p) {
  IpAddress::Bytes bytes{};
  std::copy_n(p, bytes.size(), bytes.begin());
  return IpAddress{bytes};
}

std::variant<Captured, Skip> parse_ipv6(Captured c, Bytes b) {
  if (b.size() < kIpv6Size) return Skip::not_whole;
  if (b[6] != kUdpProtocol) return Skip::other_protocol;
  const std::size_t length = load_be16(&b[4]);
  if (length > b.size() - kIpv6Size) return Skip::not_whole;
  c.traffic_class = static_cast<std::uint8_t>(load_be16(&b[0]) >> 4);
  c.hop_limit = b[7];
  c.source = ipv6_at(&b[8]);
  c.destination = ipv6_at(&b[24]);
  return parse_udp(std::move(c), b.subspan(kIpv6Size, length));
}

std::variant<Captured, Skip> parse_ethernet(Captured c, Bytes b) {
  if (b.size() < kEthernetSize) return Skip::not_whole;
  const Bytes rest = b.subspan(kEthernetSize);
  switch (load_be16(&b[12])) {
    case kEtherTypeIpv4:
      return parse_ipv4(std::move(c), rest);
    case kEtherTypeIpv6:
      return parse_ipv6(std::move(c), rest);
    default:
      return Skip::other_protocol;
  }
}

Error bad_file(std::string why) { return {EINVAL, "read_pcap: " + std::move(why)}; }

}  // namespace

Result<std::vector<Captured>> read_pcap(Bytes file) {
  if (file.size() < kFileHeaderSize) {
    return bad_file("file of " + std::to_string(file.size()) + " bytes is shorter than its header");
  }
  const auto format = format_of(file.data());
  if (!format) return bad_file("no pcap magic number (is it pcapng?)");
  const std::uint32_t link_type = format->u32(&file[20]);
  if (link_type != kLinkTypeEthernet) {
    return bad_file("link type " + std::to_string(link_type) + " is not Ethernet (1)");
  }

  std::vector<Captured> out;
  std::size_t record = 0;
  for (Bytes rest = file.subspan(kFileHeaderSize); !rest.empty(); ++record) {
    const std::string name = "record " + std::to_string(record);
    if (rest.size() < kRecordHeaderSize) return bad_file(name + " ends inside its header");
    const std::size_t size = format->u32(&rest[8]);
    if (size > rest.size() - kRecordHeaderSize) {
      return bad_file(name + " has " + std::to_string(size) + " bytes, the file " +
                      std::to_string(rest.size() - kRecordHeaderSize));
    }
    Captured c;
    const std::int64_t fraction = format->u32(&rest[4]);
    c.time = std::chrono::seconds{format->u32(&rest[0])} +
             std::chrono::nanoseconds{format->nanoseconds ? fraction : fraction * 1000};
    auto parsed = parse_ethernet(std::move(c), rest.subspan(kRecordHeaderSize, size));
    if (auto* datagram = std::get_if<Captured>(&parsed)) {
      out.push_back(std::move(*datagram));
    } else if (std::get<Skip>(parsed) == Skip::not_whole) {
      return bad_file(name + " is not a whole packet");
    }
    rest = rest.subspan(kRecordHeaderSize + size);
  }
  return out;
}

Result<std::vector<Captured>> read_pcap_file(const std::string& path) {
  std::ifstream in{path, std::ios::binary};
  if (!in) return Error{errno, "read_pcap_file: " + path + ": " + std::strerror(errno)};
  const std::vector<char> chars{std::istreambuf_iterator<char>{in}, {}};
  const std::vector<std::uint8_t> bytes{chars.begin(), chars.end()};
  auto packets = read_pcap(bytes);
  if (!packets) return Error{packets.error().code, path + ": " + packets.error().message};
  return packets;
}

}  // namespace verbena::test
