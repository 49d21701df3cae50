#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/ip_address.h"

namespace verbena::packet {

/// Who talks to whom in IP's terms: the start of the private data of a REQ or a SIDR_REQ to an
/// IP port (IBA annex A11). The destination's port is in the service id.
struct IpCmHeader {
  static constexpr std::size_t kSize = 36;
  static constexpr std::uint8_t kMajorVersion = 0;

  std::uint8_t minor_version = 0;
  std::uint16_t source_port = 0;
  IpAddress source{};
  IpAddress destination{};

  friend constexpr bool operator==(const IpCmHeader&, const IpCmHeader&) = default;
};

namespace detail {

/// IPv4 lies in the last four bytes, behind zeros: not the mapped form of a GID.
constexpr IpAddress load_cm_address(const std::uint8_t* p, bool v4) {
  return v4 ? IpAddress::v4({p[12], p[13], p[14], p[15]}) : IpAddress{load_bytes<16>(p)};
}

constexpr void store_cm_address(std::uint8_t* p, const IpAddress& a) {
  store_bytes(p, a.bytes());
  if (a.is_v4()) p[10] = p[11] = 0;
}

}  // namespace detail

/// nullopt: short, a major version that isn't 0, neither IPv4 nor IPv6, or an IPv4 address that
/// calls itself IPv6.
[[nodiscard]] constexpr std::optional<IpCmHeader> decode_ip_cm_header(
    std::span<const std::uint8_t> b) {
  if (b.size() < IpCmHeader::kSize || b[0] >> 4 != IpCmHeader::kMajorVersion) return std::nullopt;
  const unsigned ip_version = b[1] >> 4;
  if (ip_version != 4 && ip_version != 6) return std::nullopt;
  const bool v4 = ip_version == 4;
  const IpCmHeader h{.minor_version = static_cast<std::uint8_t>(b[0] & 0x0f),
                     .source_port = load_be16(&b[2]),
                     .source = detail::load_cm_address(&b[4], v4),
                     .destination = detail::load_cm_address(&b[20], v4)};
  if (h.source.is_v4() != v4 || h.destination.is_v4() != v4) return std::nullopt;
  return h;
}

/// `b` holds at least IpCmHeader::kSize bytes; both addresses are of one family.
constexpr void encode_ip_cm_header(const IpCmHeader& h, std::span<std::uint8_t> b) {
  b[0] = static_cast<std::uint8_t>((IpCmHeader::kMajorVersion << 4) | (h.minor_version & 0x0f));
  b[1] = h.destination.is_v4() ? 0x40 : 0x60;
  store_be16(&b[2], h.source_port);
  detail::store_cm_address(&b[4], h.source);
  detail::store_cm_address(&b[20], h.destination);
}

}  // namespace verbena::packet
