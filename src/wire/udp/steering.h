#pragma once

// Which process of a SO_REUSEPORT group gets a datagram: a classic BPF program that the kernel
// runs on the UDP payload. Frames go by the slot of their destination QPN, messages of the
// connection manager to QP 1 as packet/cm_steering.h says, probes to the index that they carry.
// Whatever has no rule, or an index past the end, goes by the kernel's hash.

#include <linux/filter.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "registry/shared_table.h"

namespace verbena::wire {

/// The socket at `index` belongs to who listens on `service`.
struct ListenerRule {
  std::uint32_t service = 0;  // the lower half of the service id; the upper one is 0
  std::uint16_t index = 0;

  friend constexpr bool operator==(const ListenerRule&, const ListenerRule&) = default;
};

/// A member's place is the index of its socket in the kernel's array of the group. Of the listeners
/// only the first ones, if not all fit into a program (BPF_MAXINSNS). Of two rules for the same
/// service the first one counts.
[[nodiscard]] std::vector<sock_filter> steering_program(
    std::span<const registry::GroupMember> members, std::span<const ListenerRule> listeners);

/// Replaces the program of the group that `fd` is in. If the kernel refuses it (too long for
/// net.core.optmem_max), listeners are left to the hash, the last ones first. False: refused
/// without any too; the group goes on with the one it had.
bool attach_steering(int fd, std::span<const registry::GroupMember> members,
                     std::span<const ListenerRule> listeners = {});

/// A datagram that tells the process that receives it its index in the group. The kernel
/// alone knows the order of its array: it moves the last socket to the place of one that closed.
struct Probe {
  static constexpr std::size_t kSize = 16;
  static constexpr std::uint8_t kOpcode = 0xFE;  // manufacturer range, no frame of ours

  std::uint16_t index = 0;
  std::uint32_t round = 0;  // of two answers the one of the later round is right
  std::uint64_t nonce = 0;  // known to the registry's members only

  [[nodiscard]] std::array<std::uint8_t, kSize> encode() const;
  /// nullopt: not a probe.
  [[nodiscard]] static std::optional<Probe> decode(std::span<const std::uint8_t> bytes);
};

}  // namespace verbena::wire
