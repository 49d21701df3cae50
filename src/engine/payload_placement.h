#pragma once

// Where the bytes of a SEND or WRITE that arrived reach the program's memory. All responders share
// it.

#include <cstdint>
#include <initializer_list>
#include <span>

#include "engine/queue_pair.h"

namespace verbena::engine {

enum class Placed : std::uint8_t { yes, too_long, fault };

/// Bytes into the taken receive, `offset` bytes behind its beginning.
[[nodiscard]] Placed place_send(Services& services, QueuePair& qp,
                                std::span<const std::uint8_t> bytes, std::uint32_t offset);

/// A whole message in pieces, into a receive of its own. False: it is dropped and counted, or the
/// receive was no good. `if_dropped`: the frame that brought it.
[[nodiscard]] bool place_message(Services& services, QueuePair& qp,
                                 std::initializer_list<std::span<const std::uint8_t>> pieces,
                                 const DroppedFrame& if_dropped);

/// Bytes of a WRITE that was checked, behind those that came before. False: the memory is gone.
[[nodiscard]] bool place_write(Services& services, QueuePair& qp,
                               std::span<const std::uint8_t> bytes);

}  // namespace verbena::engine
