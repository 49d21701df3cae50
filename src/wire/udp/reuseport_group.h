#pragma once

// Our membership of the processes that share one (address, 4791), and the steering among them.
//
//   join, death, misdirected frame ─► renew(): program from the table, probes for every index
//   probe arrives ─► learned(): our index into the table; if it is news, a new program
//   listener comes or goes ─► attach(): a new program, nobody moved
//
// Nobody models the order of the kernel's array. A stale program costs hand-overs for the few
// milliseconds until a probe has corrected it.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/local_address.h"
#include "base/time.h"
#include "registry/shared_table.h"
#include "wire/udp/steering.h"

namespace verbena::wire {

class ReuseportGroup {
 public:
  /// `socket` is our member, bound. `table` outlives this.
  ReuseportGroup(registry::SharedTable& table, std::uint32_t own_slot, LocalAddress local,
                 int socket);

  /// Puts the table's knowledge into the kernel and asks every member where it is.
  void renew();
  /// Puts the table's knowledge into the kernel.
  void attach();
  /// We got a frame of another process. Renews, but not more often than every 10 ms.
  void misdirected(Instant now);
  /// False: the probe is not our registry's.
  bool learned(const Probe& probe);
  /// Our socket is closed: tells the others to look where they are.
  void left();

 private:
  [[nodiscard]] std::vector<ListenerRule> listeners(
      std::span<const registry::GroupMember> members) const;
  void send_probes(int socket) const;

  registry::SharedTable& table_;
  std::uint32_t own_slot_;
  LocalAddress local_;
  int socket_;
  std::optional<registry::SharedTable::Column> column_;  // nullopt: no room in the table
  Instant renewed_{};
};

}  // namespace verbena::wire
