#pragma once

#include <algorithm>
#include <array>
#include <optional>

#include "base/ip_address.h"

namespace verbena::host {

/// The IP address of a multicast GID. IPv4 groups are written ::ffff:a.b.c.d, as every IPv4 GID,
/// or ff0e::ffff:a.b.c.d, as the kernel does where GIDs must show that they are multicast.
/// nullopt: not a multicast GID.
[[nodiscard]] constexpr std::optional<IpAddress> group_of(const IpAddress& gid) {
  if (!gid.is_multicast()) return std::nullopt;
  const IpAddress::Bytes& b = gid.bytes();
  constexpr std::array<std::uint8_t, 12> kPrefix{0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  const bool tagged = std::equal(kPrefix.begin(), kPrefix.end(), b.begin());
  const IpAddress v4 = IpAddress::v4({b[12], b[13], b[14], b[15]});
  return tagged && v4.is_multicast() ? v4 : gid;
}

}  // namespace verbena::host
