#pragma once

// The names by which a user's processes in one network namespace find each other: abstract
// Unix sockets. A bind is an atomic claim, and the name ends with the process.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "system/fd.h"

namespace verbena::registry {

/// "verbena.<uid>.<slot>", without the leading zero byte.
[[nodiscard]] std::string registry_name(std::uint32_t slot);
/// Held for the moment of founding a table.
[[nodiscard]] std::string founder_name();

/// A seqpacket socket that holds `name`; EADDRINUSE: another process does.
[[nodiscard]] Result<Fd> claim_name(const std::string& name);

/// What getsockopt SO_PEERCRED says of the process at the other end.
struct PeerIdentity {
  int pid = 0;  // 0: not visible from here
};
/// nullopt: another user's; nothing it says may be believed.
[[nodiscard]] std::optional<PeerIdentity> trusted_peer(const Fd& connection);

/// Connects to the process that holds `slot` without waiting. ECONNREFUSED: nobody holds it.
/// EAGAIN: it doesn't accept now. EPERM: another user took the name.
[[nodiscard]] Result<Fd> connect_to_slot(std::uint32_t slot);

/// Slots in a text of the form of /proc/net/unix whose names are ours.
[[nodiscard]] std::vector<std::uint32_t> slots_in(std::string_view proc_net_unix);
/// Slots that live processes hold now, in random order.
[[nodiscard]] std::vector<std::uint32_t> live_slots();

}  // namespace verbena::registry
