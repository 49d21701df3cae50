#pragma once

#include <cstdint>
#include <vector>

#include "packet/frame.h"
#include "registry/shared_table.h"

namespace verbena::wire {

/// Which processes a frame to QP 1 is for.
struct GsiRoute {
  std::uint32_t owner = 0;            // own_slot: we keep it
  std::vector<std::uint32_t> copies;  // others that need to see it too
};

/// Nobody's frames are ours: the connection manager refuses a request that nobody listens for,
/// and answers one that names an end which is gone.
[[nodiscard]] GsiRoute gsi_route(const packet::Datagram& d, const registry::SharedTable& table,
                                 std::uint32_t own_slot);

}  // namespace verbena::wire
