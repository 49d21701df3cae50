#include "packet/frame_pattern.h"

#include <algorithm>

#include "base/bytes.h"

namespace verbena::packet {

namespace {

constexpr std::size_t kMacs = 12;
constexpr std::size_t kEthernetHeader = 14;
constexpr std::size_t kTag = 4;
constexpr std::size_t kPorts = 4;
constexpr std::uint16_t kTypeVlan = 0x8100;
constexpr std::uint16_t kTypeIpv4 = 0x0800;
constexpr std::uint16_t kTypeIpv6 = 0x86dd;
constexpr std::uint8_t kProtocolTcp = 6;
constexpr std::uint8_t kProtocolUdp = 17;

}  // namespace

FrameHeaders::FrameHeaders(std::span<const std::uint8_t> frame) {
  if (frame.size() < kEthernetHeader) return;
  whole_ = true;
  std::copy_n(frame.begin(), kMacs, ethernet_.begin());
  std::uint16_t type = load_be16(&frame[kMacs]);
  auto rest = frame.subspan(kEthernetHeader);
  if (type == kTypeVlan && rest.size() >= kTag) {
    std::copy_n(rest.begin(), 2, ethernet_.begin() + kVlanTag);
    type = load_be16(&rest[2]);
    rest = rest.subspan(kTag);
  }
  store_be16(&ethernet_[kEthernetType], type);
  find_network(type, rest);
}

void FrameHeaders::find_network(std::uint16_t type, std::span<const std::uint8_t> rest) {
  constexpr std::size_t kIpv4 = 20;
  constexpr std::size_t kIpv6 = 40;
  if (type == kTypeIpv4 && rest.size() >= kIpv4 && rest[0] >> 4 == 4) {
    network_ = FrameLayer::ipv4;
    network_bytes_ = rest.first(kIpv4);
    const std::size_t length = std::size_t{4} * (rest[0] & 0xf);
    const bool later_fragment = (load_be16(&rest[6]) & 0x1fff) != 0;
    if (length >= kIpv4 && length <= rest.size() && !later_fragment) {
      find_transport(rest[9], rest.subspan(length));
    }
  } else if (type == kTypeIpv6 && rest.size() >= kIpv6 && rest[0] >> 4 == 6) {
    network_ = FrameLayer::ipv6;
    network_bytes_ = rest.first(kIpv6);
    find_transport(rest[6], rest.subspan(kIpv6));
  }
}

void FrameHeaders::find_transport(std::uint8_t protocol, std::span<const std::uint8_t> rest) {
  if ((protocol != kProtocolTcp && protocol != kProtocolUdp) || rest.size() < kPorts) return;
  transport_ = protocol == kProtocolTcp ? FrameLayer::tcp : FrameLayer::udp;
  transport_bytes_ = rest.first(kPorts);
}

std::span<const std::uint8_t> FrameHeaders::find(FrameLayer layer) const {
  if (layer == FrameLayer::ethernet) {
    return whole_ ? std::span<const std::uint8_t>{ethernet_} : std::span<const std::uint8_t>{};
  }
  if (layer == network_) return network_bytes_;
  if (layer == transport_) return transport_bytes_;
  return {};
}

Mac FrameHeaders::destination() const {
  Mac mac{};
  std::copy_n(ethernet_.begin(), mac.size(), mac.begin());
  return mac;
}

bool HeaderPattern::matches(const FrameHeaders& headers) const {
  const auto bytes = headers.find(layer);
  if (bytes.empty()) return false;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (((bytes[i] ^ value[i]) & mask[i]) != 0) return false;
  }
  return true;
}

bool matches(std::span<const HeaderPattern> patterns, const FrameHeaders& headers) {
  return std::ranges::all_of(patterns, [&](const HeaderPattern& p) { return p.matches(headers); });
}

}  // namespace verbena::packet
