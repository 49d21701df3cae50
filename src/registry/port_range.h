#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace verbena::registry {

/// Both ends belong to it.
struct PortRange {
  std::uint16_t first = 32'768;  // the kernel's own defaults
  std::uint16_t last = 60'999;

  [[nodiscard]] constexpr std::uint32_t count() const { return last - first + 1u; }
  friend constexpr bool operator==(const PortRange&, const PortRange&) = default;
};

/// `text` as in /proc/sys/net/ipv4/ip_local_port_range. nullopt: not a range of ports.
[[nodiscard]] std::optional<PortRange> parse_port_range(std::string_view text);

/// Where this network namespace takes ephemeral ports from.
[[nodiscard]] PortRange ephemeral_ports();

}  // namespace verbena::registry
