#pragma once

// Where the bytes of a request go: shared by all responders.

#include <cstdint>
#include <span>

#include "engine/queue_pair.h"
#include "packet/packet.h"

namespace verbena::engine {

enum class Placed : std::uint8_t { yes, too_long, fault };

/// A receive for the message that begins: from the queue pair's own queue, its shared one, or
/// the one that an XRC request names. False: there is none.
[[nodiscard]] bool take_receive(Services& services, QueuePair& qp);

/// Bytes into the taken receive, `offset` bytes behind its beginning.
[[nodiscard]] Placed place_send(Services& services, QueuePair& qp,
                                std::span<const std::uint8_t> bytes, std::uint32_t offset);

/// The domain whose memory the peer's request may reach: an XRC request's is that of the receive
/// queue it names.
[[nodiscard]] PdId remote_pd(const QueuePair& qp);

/// The registration of `pd` through which the peer may do `access` to so many bytes, or nullptr
/// (C9-104, C9-112).
[[nodiscard]] const MemoryRegion* remote_region(const Services& services, const QueuePair& qp,
                                                PdId pd, Key rkey, std::uint64_t address,
                                                std::uint64_t bytes, unsigned access);

/// Bytes of a WRITE that was checked, behind those that came before. False: the memory is gone.
[[nodiscard]] bool place_write(Services& services, QueuePair& qp,
                               std::span<const std::uint8_t> bytes);

/// The message is whole: its receive completes.
void complete_receive(Services& services, QueuePair& qp, const packet::Packet& p);

/// The taken receive ends with an error.
void fail_receive(Services& services, QueuePair& qp, CompletionStatus status);

}  // namespace verbena::engine
