#include "wire/pcapng.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

#include "base/bytes.h"

namespace verbena::wire::pcapng {
namespace {

static_assert(std::endian::native == std::endian::little, "the file's byte order is ours");

constexpr std::uint32_t kSectionBlock = 0x0a0d'0d0a;
constexpr std::uint32_t kInterfaceBlock = 1;
constexpr std::uint32_t kEnhancedPacketBlock = 6;
constexpr std::uint32_t kByteOrderMagic = 0x1a2b'3c4d;
constexpr std::uint16_t kRawIp = 101;  // LINKTYPE_RAW

// Options.
constexpr std::uint16_t kEnd = 0;
constexpr std::uint16_t kInterfaceName = 2;
constexpr std::uint16_t kTimeResolution = 9;
constexpr std::uint16_t kUserApplication = 4;
constexpr std::uint16_t kPacketFlags = 2;

constexpr std::uint8_t kUdp = 17;
constexpr std::size_t kUdpSize = 8;

template <typename T>
void append(std::string& to, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  to.append(bytes, sizeof value);
}

void pad(std::string& to, std::size_t size) { to.append((4 - size % 4) % 4, '\0'); }

void append_option(std::string& to, std::uint16_t code, std::string_view value) {
  append(to, code);
  append(to, static_cast<std::uint16_t>(value.size()));
  to.append(value);
  pad(to, value.size());
}

/// Writes its length at both ends when it goes.
class Block {
 public:
  Block(std::string& to, std::uint32_t type) : to_{to}, start_{to.size()} {
    append(to_, type);
    append(to_, std::uint32_t{0});
  }
  ~Block() {
    const auto length = static_cast<std::uint32_t>(to_.size() - start_ + sizeof(std::uint32_t));
    std::memcpy(&to_[start_ + sizeof(std::uint32_t)], &length, sizeof length);
    append(to_, length);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

 private:
  std::string& to_;
  std::size_t start_;
};

/// RFC 1071. Sums and stores are big-endian, so that the bytes are what goes on the wire.
class Checksum {
 public:
  void add(std::span<const std::uint8_t> bytes) {
    std::size_t i = 0;
    for (; i + 1 < bytes.size(); i += 2) sum_ += load_be16(&bytes[i]);
    if (i < bytes.size()) sum_ += std::uint32_t{bytes[i]} << 8;
  }
  void add(std::uint32_t value) { sum_ += value; }
  [[nodiscard]] std::uint16_t value() const {
    std::uint64_t sum = sum_;
    while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<std::uint16_t>(~sum);
  }

 private:
  std::uint64_t sum_ = 0;
};

struct Headers {
  std::array<std::uint8_t, 48> bytes{};
  std::size_t size = 0;
};

// The bytes of an IPv4 address, in its mapped form.
std::span<const std::uint8_t> address_bytes(const IpAddress::Bytes& bytes, bool v4) {
  return std::span{bytes}.subspan(v4 ? 12 : 0);
}

void fill_ipv4(Headers& h, const PacketInfo& info, const packet::Datagram& d, std::size_t udp) {
  constexpr std::size_t kSize = 20;
  constexpr std::uint16_t kDontFragment = 0x4000;
  h.size = kSize + kUdpSize;
  h.bytes[0] = 0x45;
  h.bytes[1] = d.traffic_class;
  store_be16(&h.bytes[2], static_cast<std::uint16_t>(kSize + udp));
  store_be16(&h.bytes[4], info.identification);
  store_be16(&h.bytes[6], kDontFragment);
  h.bytes[8] = d.hop_limit;
  h.bytes[9] = kUdp;
  const auto source = d.source.bytes();
  const auto destination = d.destination.bytes();
  std::memcpy(&h.bytes[12], &source[12], 4);
  std::memcpy(&h.bytes[16], &destination[12], 4);
  Checksum sum;
  sum.add(std::span{h.bytes}.first(kSize));
  store_be16(&h.bytes[10], sum.value());
}

void fill_ipv6(Headers& h, const packet::Datagram& d, std::size_t udp) {
  constexpr std::size_t kSize = 40;
  h.size = kSize + kUdpSize;
  h.bytes[0] = static_cast<std::uint8_t>(0x60 | d.traffic_class >> 4);
  h.bytes[1] = static_cast<std::uint8_t>(d.traffic_class << 4);
  store_be16(&h.bytes[4], static_cast<std::uint16_t>(udp));
  h.bytes[6] = kUdp;
  h.bytes[7] = d.hop_limit;
  const auto source = d.source.bytes();
  const auto destination = d.destination.bytes();
  std::memcpy(&h.bytes[8], source.data(), source.size());
  std::memcpy(&h.bytes[24], destination.data(), destination.size());
}

void fill_udp(Headers& h, const packet::Datagram& d, std::size_t udp) {
  std::uint8_t* const at = &h.bytes[h.size - kUdpSize];
  store_be16(at, d.source_port);
  store_be16(at + 2, packet::kRocePort);
  store_be16(at + 4, static_cast<std::uint16_t>(udp));
  const bool v4 = d.source.is_v4();
  Checksum sum;
  sum.add(address_bytes(d.source.bytes(), v4));
  sum.add(address_bytes(d.destination.bytes(), v4));
  sum.add(kUdp);
  sum.add(static_cast<std::uint32_t>(udp));
  sum.add(std::span<const std::uint8_t>{at, kUdpSize});
  sum.add(d.bytes);
  // RFC 768: a sum of 0 is sent as ones, because 0 says that there is none.
  store_be16(at + 6, sum.value() == 0 ? std::uint16_t{0xffff} : sum.value());
}

Headers headers_of(const PacketInfo& info, const packet::Datagram& d) {
  Headers h;
  const std::size_t udp = kUdpSize + d.bytes.size();
  if (d.source.is_v4()) {
    fill_ipv4(h, info, d, udp);
  } else {
    fill_ipv6(h, d, udp);
  }
  fill_udp(h, d, udp);
  return h;
}

}  // namespace

void append_section(std::string& to, std::string_view application) {
  const Block block{to, kSectionBlock};
  append(to, kByteOrderMagic);
  append(to, std::uint16_t{1});  // version 1.0
  append(to, std::uint16_t{0});
  append(to, std::int64_t{-1});  // length of the section: not said
  append_option(to, kUserApplication, application);
  append_option(to, kEnd, "");
}

void append_interface(std::string& to, std::string_view name) {
  const Block block{to, kInterfaceBlock};
  append(to, kRawIp);
  append(to, std::uint16_t{0});
  append(to, std::uint32_t{0});  // no limit on what is kept of a packet
  append_option(to, kInterfaceName, name);
  append_option(to, kTimeResolution, std::string_view{"\x09", 1});  // 10^-9 s
  append_option(to, kEnd, "");
}

void append_packet(std::string& to, const PacketInfo& info, const packet::Datagram& d) {
  const Headers headers = headers_of(info, d);
  const std::size_t size = headers.size + d.bytes.size();
  const Block block{to, kEnhancedPacketBlock};
  append(to, info.interface);
  append(to, static_cast<std::uint32_t>(info.time >> 32));
  append(to, static_cast<std::uint32_t>(info.time));
  append(to, static_cast<std::uint32_t>(size));  // captured
  append(to, static_cast<std::uint32_t>(size));  // on the wire
  to.append(reinterpret_cast<const char*>(headers.bytes.data()), headers.size);
  to.append(reinterpret_cast<const char*>(d.bytes.data()), d.bytes.size());
  pad(to, size);
  append(to, kPacketFlags);
  append(to, std::uint16_t{sizeof(std::uint32_t)});
  append(to, static_cast<std::uint32_t>(info.direction));
  append_option(to, kEnd, "");
}

}  // namespace verbena::wire::pcapng
