#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/ip_address.h"
#include "packet/cm_timeout.h"

namespace verbena::packet {

/// RoCE has no LIDs; the kernel writes this one.
inline constexpr std::uint16_t kPermissiveLid = 0xffff;

/// A path that a connection may take, seen by the sender of the message: "local" is its own end.
struct CmPath {
  static constexpr std::size_t kSize = 44;

  std::uint16_t local_lid = 0;
  std::uint16_t remote_lid = 0;
  IpAddress local{};
  IpAddress remote{};
  std::uint32_t flow_label = 0;  // 20 bits
  std::uint8_t packet_rate = 0;  // 6 bits
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t service_level = 0;  // 4 bits
  bool subnet_local = false;
  CmTimeout ack_timeout{};  // of the queue pair of the sender of the message

  friend constexpr bool operator==(const CmPath&, const CmPath&) = default;
};

namespace detail {

constexpr CmPath load_path_ends(const std::uint8_t* p) {
  CmPath path{};
  path.local_lid = load_be16(p);
  path.remote_lid = load_be16(p + 2);
  path.local = IpAddress{load_bytes<16>(p + 4)};
  path.remote = IpAddress{load_bytes<16>(p + 20)};
  path.flow_label = load_be24(p + 36) >> 4;
  path.service_level = p[42] >> 4;
  path.subnet_local = (p[42] & 0x08) != 0;
  path.ack_timeout = CmTimeout{static_cast<unsigned>(p[43] >> 3)};
  return path;
}

constexpr void store_path_ends(std::uint8_t* p, const CmPath& path) {
  store_be16(p, path.local_lid);
  store_be16(p + 2, path.remote_lid);
  store_bytes(p + 4, path.local.bytes());
  store_bytes(p + 20, path.remote.bytes());
  store_be24(p + 36, path.flow_label << 4);
  p[42] = static_cast<std::uint8_t>((path.service_level << 4) | (path.subnet_local ? 0x08 : 0));
  p[43] = static_cast<std::uint8_t>(path.ack_timeout.value() << 3);
}

}  // namespace detail

// REQ and LAP order the middle of a path differently (IBA 12.6.5, 12.6.11).

constexpr CmPath load_request_path(const std::uint8_t* p) {
  CmPath path = detail::load_path_ends(p);
  path.packet_rate = p[39] & 0x3f;
  path.traffic_class = p[40];
  path.hop_limit = p[41];
  return path;
}

constexpr void store_request_path(std::uint8_t* p, const CmPath& path) {
  detail::store_path_ends(p, path);
  p[39] = path.packet_rate & 0x3f;
  p[40] = path.traffic_class;
  p[41] = path.hop_limit;
}

constexpr CmPath load_lap_path(const std::uint8_t* p) {
  CmPath path = detail::load_path_ends(p);
  path.traffic_class = p[39];
  path.hop_limit = p[40];
  path.packet_rate = p[41] & 0x3f;
  return path;
}

constexpr void store_lap_path(std::uint8_t* p, const CmPath& path) {
  detail::store_path_ends(p, path);
  p[39] = path.traffic_class;
  p[40] = path.hop_limit;
  p[41] = path.packet_rate & 0x3f;
}

}  // namespace verbena::packet
