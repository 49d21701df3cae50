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

/// Our user as the parent of this user namespace numbers it, given the text of /proc/self/uid_map:
/// there the processes outside that are the same user's have that number, too. `overflow` stands
/// for all users without a number here. nullopt: we can't be told from them.
[[nodiscard]] std::optional<std::uint32_t> user_outside(std::string_view uid_map,
                                                        std::uint32_t user, std::uint32_t overflow);
/// EPERM: other users look like this one here, so nobody can be trusted.
[[nodiscard]] Status check_user();

/// "verbena.<uid>.<slot>", without the leading zero byte. The uid is user_outside().
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
/// EAGAIN: it doesn't accept now. EPERM: another user took the name. Others: we can't know.
[[nodiscard]] Result<Fd> connect_to_slot(std::uint32_t slot);

/// Slots in a text of the form of /proc/net/unix whose names are ours.
[[nodiscard]] std::vector<std::uint32_t> slots_in(std::string_view proc_net_unix);
/// Slots that live processes hold now, in random order.
[[nodiscard]] std::vector<std::uint32_t> live_slots();

}  // namespace verbena::registry
