#pragma once

// The host's network interfaces as rtnetlink tells of them (rtnetlink(7)): bytes in, a table out.
// No descriptor here; host/devices/netlink.h has those.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ip_address.h"

namespace verbena::host {

struct Link {
  using Mac = std::array<std::uint8_t, 6>;
  /// The same address may be there once for each length of its prefix.
  struct Address {
    IpAddress address;
    std::uint8_t prefix = 0;
    friend bool operator==(const Address&, const Address&) = default;
  };

  std::string name;       // empty: only its addresses were told of
  unsigned flags = 0;     // IFF_*
  std::uint32_t mtu = 0;  // bytes
  std::optional<Mac> mac;
  std::vector<Address> addresses;

  [[nodiscard]] bool enabled() const;  // the administrator's: "ip link set up"
  [[nodiscard]] bool loopback() const;
  /// Packets can leave: enabled, and there is a carrier. Loopback needs none.
  [[nodiscard]] bool running() const;

  friend bool operator==(const Link&, const Link&) = default;
};

class LinkTable {
 public:
  using Table = std::map<unsigned, Link>;  // by interface index

  /// One datagram of rtnetlink's: any number of messages, of which links and addresses are
  /// looked at. What is cut short is left out.
  void apply(std::span<const std::uint8_t> messages);

  [[nodiscard]] const Table& all() const { return links_; }

 private:
  void apply_link(std::uint16_t type, std::span<const std::uint8_t> body);
  void apply_address(std::uint16_t type, std::span<const std::uint8_t> body);

  Table links_;
};

}  // namespace verbena::host
