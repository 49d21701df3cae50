#include "packet/grh.h"

#include <algorithm>
#include <span>

#include "base/bytes.h"
#include "packet/internet_headers.h"

namespace verbena::packet {
namespace {

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

GrhHeader read_ipv4(std::span<const std::uint8_t, kIpv4Size> ip) {
  return {.source = IpAddress::v4({ip[12], ip[13], ip[14], ip[15]}),
          .destination = IpAddress::v4({ip[16], ip[17], ip[18], ip[19]}),
          .traffic_class = ip[1]};
}

GrhHeader read_ipv6(std::span<const std::uint8_t, kGrhSize> ip) {
  IpAddress::Bytes source;
  IpAddress::Bytes destination;
  std::copy_n(&ip[8], source.size(), source.begin());
  std::copy_n(&ip[24], destination.size(), destination.begin());
  const std::uint32_t first = load_be32(&ip[0]);
  return {.source = IpAddress{source},
          .destination = IpAddress{destination},
          .traffic_class = static_cast<std::uint8_t>(first >> 20),
          .flow_label = first & 0xf'ffff};
}

}  // namespace

std::optional<GrhHeader> read_grh(const Grh& grh) {
  const auto ipv4 = std::span{grh}.last<kIpv4Size>();
  // Over a header with the right checksum in it, the sum is 0.
  if (ipv4[0] == 0x45 && internet_checksum(ipv4) == 0) return read_ipv4(ipv4);
  if (grh[0] >> 4 == 6) return read_ipv6(grh);
  return std::nullopt;
}

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
