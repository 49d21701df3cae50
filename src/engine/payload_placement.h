#pragma once

// Where the bytes of a SEND or WRITE that arrived reach the program's memory. All responders share
// it.

#include <cstdint>
#include <span>

#include "engine/queue_pair.h"

namespace verbena::engine {

enum class Placed : std::uint8_t { yes, too_long, fault };

/// Bytes into the taken receive, `offset` bytes behind its beginning.
[[nodiscard]] Placed place_send(Services& services, QueuePair& qp,
                                std::span<const std::uint8_t> bytes, std::uint32_t offset);

/// Bytes of a WRITE that was checked, behind those that came before. False: the memory is gone.
[[nodiscard]] bool place_write(Services& services, QueuePair& qp,
                               std::span<const std::uint8_t> bytes);

}  // namespace verbena::engine
