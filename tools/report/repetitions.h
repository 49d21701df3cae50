#pragma once

// What packets say about each other: which one left before, which one its receiver had already, and
// which one it didn't take.

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "tools/report/model.h"

namespace verbena::report {

/// The way in one direction of a conversation.
using Direction = std::pair<std::uint32_t, Side>;

/// `known`: directions whose packets say themselves that they are sent again, as traces do.
void mark_repetitions(std::vector<Event>& packets, const std::set<Direction>& known);

}  // namespace verbena::report
