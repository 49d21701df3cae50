#include "packet/grh.h"

#include <algorithm>
#include <span>

#include "base/bytes.h"

namespace verbena::packet {
namespace {

constexpr std::size_t kIpv4Size = 20;
constexpr std::size_t kUdpSize = 8;
constexpr std::uint8_t kUdpProtocol = 17;
constexpr std::uint16_t kDontFragment = 0x4000;

std::uint16_t internet_checksum(std::span<const std::uint8_t, kIpv4Size> header) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < header.size(); i += 2) sum += load_be16(&header[i]);
  sum = (sum & 0xffff) + (sum >> 16);
  sum += sum >> 16;
  return static_cast<std::uint16_t>(~sum);
}

void write_ipv4(const Datagram& d, std::span<std::uint8_t, kIpv4Size> ip) {
  const auto source = d.source.v4_bytes();
  const auto destination = d.destination.v4_bytes();
  ip[0] = 0x45;
  ip[1] = d.traffic_class;
  store_be16(&ip[2], static_cast<std::uint16_t>(kIpv4Size + kUdpSize + d.bytes.size()));
  store_be16(&ip[6], kDontFragment);
  ip[8] = d.hop_limit;
  ip[9] = kUdpProtocol;
  std::copy(source.begin(), source.end(), &ip[12]);
  std::copy(destination.begin(), destination.end(), &ip[16]);
  store_be16(&ip[10], internet_checksum(ip));
}

void write_ipv6(const Datagram& d, std::span<std::uint8_t, kGrhSize> ip) {
  const auto& source = d.source.bytes();
  const auto& destination = d.destination.bytes();
  store_be16(&ip[0], static_cast<std::uint16_t>(0x6000 | (d.traffic_class << 4)));
  store_be16(&ip[4], static_cast<std::uint16_t>(kUdpSize + d.bytes.size()));
  ip[6] = kUdpProtocol;
  ip[7] = d.hop_limit;
  std::copy(source.begin(), source.end(), &ip[8]);
  std::copy(destination.begin(), destination.end(), &ip[24]);
}

}  // namespace

Grh grh_of(const Datagram& datagram) {
  Grh grh{};
  if (datagram.source.is_v4()) {
    write_ipv4(datagram, std::span{grh}.last<kIpv4Size>());
  } else {
    write_ipv6(datagram, grh);
  }
  return grh;
}

}  // namespace verbena::packet
