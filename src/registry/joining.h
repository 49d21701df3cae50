#pragma once

// How a process enters the registry. There is no leader: whoever is alive hands out the table,
// and the first one founds it.
//
//   list names ─┬─ a peer answers ──────────────────────────────► claim a slot
//               └─ nobody there ── hold the founder's name ── found ──┘

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "registry/shared_table.h"
#include "system/fd.h"

namespace verbena::registry {

/// A live peer that we keep a connection to, so that each sees the other's death.
struct Sponsor {
  Fd connection;
  std::uint32_t slot = 0;
};

struct Registration {
  SharedTable table;
  std::uint32_t slot = 0;
  Fd listener;                     // holds the slot's name
  std::optional<Sponsor> sponsor;  // who gave us the table
};

[[nodiscard]] Result<Registration> join_registry();

// The steps of claiming a slot.

struct Claim {
  std::uint32_t slot = 0;
  Fd listener;
};
[[nodiscard]] Result<Claim> claim_slot(SharedTable& table, Instant now);

/// Releases slots that the table calls held, but whose names are gone: nobody saw those
/// processes die.
void bury_unseen_dead(SharedTable& table, Instant now);

/// The free slots in random order, then the resting ones, the longest-rested first: the rest
/// is a precaution, and no reason to turn a process away.
[[nodiscard]] std::vector<std::uint32_t> slots_to_try(const SharedTable& table, Instant now);

}  // namespace verbena::registry
