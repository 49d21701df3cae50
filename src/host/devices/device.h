#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ip_address.h"
#include "host/devices/link_table.h"

namespace verbena::host {

/// One device per network interface.
struct Device {
  std::string name;       // vb_eth0
  std::string interface;  // eth0
  unsigned interface_index = 0;
  std::uint64_t guid = 0;  // EUI-64 of the interface, host order
  std::uint32_t interface_mtu = 0;
  bool up = true;  // packets can leave: the port is active
  /// Programs find it in the list: its interface is enabled and has an address.
  bool listed = true;
  /// By GID index, which doesn't change while the process lives: link-local first, then IPv6, then
  /// IPv4, then what came later. All zeros: an empty place. As long as GidTables::kLength.
  std::vector<IpAddress> gids;

  /// The largest RoCE MTU that fits into the interface's: 256 … 4096 bytes.
  [[nodiscard]] std::uint16_t active_mtu() const;
};

/// Those in the list: the default route's interface first, loopback last. Asks the kernel.
[[nodiscard]] std::vector<Device> list_devices();

/// The devices of these interfaces, by interface index, listed or not. Not of those whose RoCE is
/// spoken by hardware or by the kernel's rxe.
[[nodiscard]] std::vector<Device> devices_of(const LinkTable& links);

/// What a program is told of a port. Numbered as ibv_event_type.
enum class PortEvent : std::uint8_t { device_fatal = 8, active = 9, error = 10, gid_change = 18 };

struct PortChange {
  std::string device;
  PortEvent event;
  friend bool operator==(const PortChange&, const PortChange&) = default;
};

/// What has to be told, in this order. A device that is in one of the lists only has come or gone:
/// its port was, or is, down and without GIDs. One that has gone is fatal to who has it open.
[[nodiscard]] std::vector<PortChange> changes(const std::vector<Device>& before,
                                              const std::vector<Device>& after);

}  // namespace verbena::host
