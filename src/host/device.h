#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ip_address.h"

namespace verbena::host {

/// One device per network interface that is up and has an address.
struct Device {
  std::string name;       // vb_eth0
  std::string interface;  // eth0
  unsigned interface_index = 0;
  std::uint64_t guid = 0;  // EUI-64 of the interface, host order
  std::uint32_t interface_mtu = 0;
  bool up = true;
  /// By GID index, which doesn't change while the process lives: link-local first, then IPv6, then
  /// IPv4, then what came later. All zeros: an address that is gone.
  std::vector<IpAddress> gids;

  /// The largest RoCE MTU that fits into the interface's: 256 … 4096 bytes.
  [[nodiscard]] std::uint16_t active_mtu() const;
};

/// The default route's interface first, loopback last.
[[nodiscard]] std::vector<Device> list_devices();

}  // namespace verbena::host
