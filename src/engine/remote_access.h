#pragma once

// What a peer may do to this side's memory (IBA 10.6.3, C9-81, C9-104, C9-112).

#include <cstdint>

#include "engine/queue_pair.h"
#include "packet/packet.h"

namespace verbena::engine {

/// What the queue pair and the region must grant for this request.
[[nodiscard]] unsigned access_for(const packet::Packet& p);

/// The domain whose memory the peer's request may reach: an XRC request's is that of the receive
/// queue it names.
[[nodiscard]] PdId remote_pd(const QueuePair& qp);

/// The registration of `pd` through which the peer may do `access` to so many bytes, or nullptr.
[[nodiscard]] const MemoryRegion* remote_region(const Services& services, const QueuePair& qp,
                                                PdId pd, Key rkey, std::uint64_t address,
                                                std::uint64_t bytes, unsigned access);

}  // namespace verbena::engine
