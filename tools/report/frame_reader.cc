#include "tools/report/frame_reader.h"

#include <arpa/inet.h>

#include <array>
#include <variant>

#include "base/bytes.h"
#include "packet/internet_headers.h"
#include "packet/mad.h"
#include "packet/packet.h"

namespace verbena::report {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::uint16_t kRocePort = 4791;
constexpr std::uint16_t kEtherTypeIpv4 = 0x0800;
constexpr std::uint16_t kEtherTypeIpv6 = 0x86dd;
constexpr std::uint16_t kEtherTypeVlan = 0x8100;
constexpr std::uint16_t kEtherTypeServiceVlan = 0x88a8;

constexpr std::size_t kEthernetSize = 14;

/// What stands behind the link's own header, if that says IP.
std::optional<Bytes> behind_type(Bytes frame, std::size_t type_at, std::size_t size) {
  while (frame.size() >= size) {
    const std::uint16_t type = load_be16(&frame[type_at]);
    if (type == kEtherTypeIpv4 || type == kEtherTypeIpv6) return frame.subspan(size);
    if (type != kEtherTypeVlan && type != kEtherTypeServiceVlan) return std::nullopt;
    type_at = size + 2;
    size += 4;
  }
  return std::nullopt;
}

std::optional<Bytes> ip_packet_in(LinkType link, Bytes frame) {
  constexpr std::size_t kLoopbackSize = 4, kCookedSize = 16, kCooked2Size = 20;
  switch (link) {
    case LinkType::raw_ip:
    case LinkType::raw_ipv4:
    case LinkType::raw_ipv6:
      return frame;
    case LinkType::ethernet:
      return behind_type(frame, kEthernetSize - 2, kEthernetSize);
    case LinkType::linux_cooked:
      return behind_type(frame, kCookedSize - 2, kCookedSize);
    case LinkType::linux_cooked_2:
      return behind_type(frame, 0, kCooked2Size);
    case LinkType::null:
    case LinkType::loop:
      if (frame.size() < kLoopbackSize) return std::nullopt;
      return frame.subspan(kLoopbackSize);
  }
  return std::nullopt;
}

std::string address_text(int family, const std::uint8_t* bytes) {
  std::array<char, INET6_ADDRSTRLEN> room{};
  return inet_ntop(family, bytes, room.data(), room.size()) == nullptr ? "" : room.data();
}

/// A UDP datagram with its addresses. Its end may be missing where the capture cut packets short.
struct Datagram {
  std::string source;
  std::string destination;
  Bytes payload;
  std::size_t whole = 0;  // bytes of payload that it had on the wire
};

std::optional<Datagram> behind_udp(Datagram d, Bytes udp) {
  if (udp.size() < packet::kUdpSize || load_be16(&udp[2]) != kRocePort) return std::nullopt;
  const std::size_t length = load_be16(&udp[4]);
  if (length < packet::kUdpSize) return std::nullopt;
  d.whole = length - packet::kUdpSize;
  d.payload = udp.subspan(packet::kUdpSize);
  d.payload = d.payload.first(std::min(d.payload.size(), d.whole));
  return d;
}

std::optional<Datagram> datagram_in(Bytes ip) {
  if (ip.empty()) return std::nullopt;
  Datagram d;
  if (ip[0] >> 4 == 4) {
    const std::size_t header = std::size_t{ip[0] & 0x0fu} * 4;
    if (ip.size() < packet::kIpv4Size || header < packet::kIpv4Size || ip.size() < header) {
      return std::nullopt;
    }
    const bool fragment = (load_be16(&ip[6]) & 0x3fff) != 0;
    if (ip[9] != packet::kUdpProtocol || fragment) return std::nullopt;
    d.source = address_text(AF_INET, &ip[12]);
    d.destination = address_text(AF_INET, &ip[16]);
    return behind_udp(std::move(d), ip.subspan(header));
  }
  if (ip[0] >> 4 != 6 || ip.size() < packet::kIpv6Size || ip[6] != packet::kUdpProtocol) {
    return std::nullopt;
  }
  d.source = address_text(AF_INET6, &ip[8]);
  d.destination = address_text(AF_INET6, &ip[24]);
  return behind_udp(std::move(d), ip.subspan(packet::kIpv6Size));
}

}  // namespace

std::optional<Observation> read_frame(LinkType link, Bytes frame, Observations& texts) {
  const auto ip = ip_packet_in(link, frame);
  if (!ip) return std::nullopt;
  const auto datagram = datagram_in(*ip);
  if (!datagram) return std::nullopt;
  const auto bth = packet::decode_bth(datagram->payload);
  if (!bth || !packet::info_of(bth->opcode).known()) return std::nullopt;

  Observation o;
  o.local = texts.keep(datagram->source);
  o.peer = texts.keep(datagram->destination);
  o.opcode = static_cast<std::uint8_t>(bth->opcode);
  o.destination_qpn = bth->destination.value();
  o.psn = bth->psn.value();
  o.ack_request = bth->ack_request;
  std::size_t headers = packet::header_size(bth->opcode);
  const std::size_t around = headers + bth->pad + packet::kIcrcSize;
  if (datagram->payload.size() < headers || datagram->whole < around) return std::nullopt;
  o.bytes = static_cast<std::uint32_t>(datagram->whole - around);
  constexpr std::uint32_t kManagementQpn = 1;
  if (o.destination_qpn == kManagementQpn) headers += packet::kMadSize;
  const Bytes kept = datagram->payload.first(std::min(headers, datagram->payload.size()));
  o.headers.assign(kept.begin(), kept.end());
  return o;
}

bool may_be_roce(LinkType link, Bytes beginning) {
  const auto ip = ip_packet_in(link, beginning);
  if (!ip) return beginning.size() < kEthernetSize;
  if (ip->empty()) return true;
  const bool v6 = ip->front() >> 4 == 6;
  const std::size_t protocol = v6 ? 6 : 9;
  const std::size_t port = (v6 ? packet::kIpv6Size : std::size_t{ip->front() & 0x0fu} * 4) + 2;
  if (ip->size() > protocol && (*ip)[protocol] != packet::kUdpProtocol) return false;
  return ip->size() < port + 2 || load_be16(&(*ip)[port]) == kRocePort;
}

}  // namespace verbena::report
