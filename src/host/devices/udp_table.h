#pragma once

// The UDP sockets of this network namespace, as /proc/net/udp and /proc/net/udp6 have them.

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip_address.h"

namespace verbena::host {

struct UdpSocketEntry {
  IpAddress address;  // all zeros, or 0.0.0.0: every address of its family
  std::uint16_t port = 0;
  uid_t owner = 0;
  ino_t inode = 0;

  friend bool operator==(const UdpSocketEntry&, const UdpSocketEntry&) = default;
};

/// Lines that can't be read are left out.
[[nodiscard]] std::vector<UdpSocketEntry> parse_udp_table(std::string_view text);

/// Those at `port`, of both families.
[[nodiscard]] std::vector<UdpSocketEntry> udp_sockets_at(std::uint16_t port);

/// Whether a socket bound to one may keep another from being bound to `local`: it has the same
/// address, or every address. One for every IPv6 address may have the IPv4 ones as well.
[[nodiscard]] bool overlaps(const UdpSocketEntry& socket, const IpAddress& local);

}  // namespace verbena::host
