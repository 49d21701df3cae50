#pragma once

// What rdma_cm binds: a port of a port space at an address. Two bindings of one port get in
// each other's way where they overlap.
//
//              address b   every v4   every v6   every one
//   address a  if a == b   a is v4    a is v6    yes
//   every v4               yes        no         yes
//   every v6                          yes        yes
//   every one                                    yes

#include <cstdint>
#include <optional>

#include "base/ip_address.h"
#include "base/service_id.h"

namespace verbena::registry {

/// Addresses that a wildcard stands for. An IPv6 wildcard of rdma_cm is `any`, with AFONLY `v6`.
enum class Family : std::uint8_t { any, v4, v6 };

struct PortBinding {
  PortSpace space = PortSpace::tcp;
  std::uint16_t port = 0;                           // 0: an ephemeral one
  std::optional<IpAddress> address = std::nullopt;  // nullopt: every address of `family`
  Family family = Family::any;                      // means nothing beside an address
  bool reuse = false;  // bears others that bear it, as long as none of them listens

  friend constexpr bool operator==(const PortBinding&, const PortBinding&) = default;
};

/// Names a binding within its process.
enum class PortId : std::uint32_t {};

struct BoundPort {
  PortId id{};
  std::uint16_t port = 0;
};

[[nodiscard]] constexpr bool covers(const PortBinding& binding, const IpAddress& address) {
  if (binding.address) return *binding.address == address;
  return binding.family == Family::any || (binding.family == Family::v4) == address.is_v4();
}

/// Is there an address and a port that both stand for?
[[nodiscard]] constexpr bool overlap(const PortBinding& a, const PortBinding& b) {
  if (a.space != b.space || a.port != b.port) return false;
  if (a.address) return covers(b, *a.address);
  if (b.address) return covers(a, *b.address);
  return a.family == Family::any || b.family == Family::any || a.family == b.family;
}

}  // namespace verbena::registry
