#pragma once

// One process' view of the ports that all processes of the registry have bound. Two that want
// the same one can't both get it: each shows what it wants, then looks at what the others
// show (all accesses are sequentially consistent, so at least one sees the other), and of two
// that see each other the one with the lower entry goes first.

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/ip_address.h"
#include "base/result.h"
#include "base/service_id.h"
#include "base/time.h"
#include "registry/port_binding.h"
#include "registry/port_memory.h"
#include "registry/port_range.h"
#include "registry/shared_table.h"

namespace verbena::registry {

class PortTable {
 public:
  /// How long a process that stopped in the middle of a claim can hold up another one.
  static constexpr Duration kPatience = std::chrono::milliseconds{100};

  /// `table` outlives this. `own_slot` is held. Without a range, the system's ephemeral ports.
  PortTable(SharedTable& table, std::uint32_t own_slot,
            std::optional<PortRange> ephemeral = std::nullopt);

  /// EADDRINUSE: another binding is in the way. EADDRNOTAVAIL: no ephemeral port is free.
  /// ENOMEM: the table is full.
  Result<BoundPort> bind(const PortBinding& wanted);
  /// EADDRINUSE: another binding listens there. EINVAL: no such binding.
  Status listen(PortId id);
  /// True: it listened.
  bool release(PortId id);

 private:
  /// An entry of ours.
  struct Claim {
    std::size_t index = 0;
    PortHead head;
    PortBinding binding;
  };
  struct Step;
  struct Obstacle;

  [[nodiscard]] Result<BoundPort> bind_to(const PortBinding& wanted);
  /// Shares the port with nobody who has it already, reuse or not.
  [[nodiscard]] Result<BoundPort> bind_alone(PortBinding wanted);
  [[nodiscard]] Result<BoundPort> bind_ephemeral(PortBinding wanted);
  /// nullopt: the table is full.
  [[nodiscard]] std::optional<Claim> claim(const PortBinding& wanted);
  [[nodiscard]] Status advance(Claim& mine, const Step& step);
  [[nodiscard]] std::optional<Obstacle> obstacle_to(const Claim& mine, const Step& step) const;
  /// False: the entry isn't ours any more.
  bool move_to(Claim& mine, PortState state);

  SharedTable& table_;
  std::uint32_t own_slot_;
  std::optional<PortRange> range_;                // of ephemeral ports, once read
  std::unordered_map<std::uint32_t, Claim> own_;  // by PortId, which is the entry's index
};

/// A binding of a live process that listens.
struct Listener {
  std::uint32_t slot = 0;
  PortBinding binding;
};

/// Those that a request to `address` can be for: bound to the address itself, then wildcards.
[[nodiscard]] std::vector<Listener> listeners_at(const SharedTable& table,
                                                 const IpAddress& address);
/// The slot that gets requests for `service` at `address`; nullopt: nobody listens there.
[[nodiscard]] std::optional<std::uint32_t> listener_of(const SharedTable& table, ServiceId service,
                                                       const IpAddress& address);
/// Whether a live process has the port, listening or not.
[[nodiscard]] bool is_bound(const SharedTable& table, ServiceId service, const IpAddress& address);
/// Every slot that listens on anything.
[[nodiscard]] std::vector<std::uint32_t> listening_slots(const SharedTable& table);

}  // namespace verbena::registry
