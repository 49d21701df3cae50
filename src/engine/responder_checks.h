#pragma once

// What a request must fulfil before the responder of RC and XRC executes it, in this order. The
// first check that fails decides the NAK.

#include <optional>

#include "engine/queue_pair.h"
#include "packet/aeth.h"
#include "packet/packet.h"

namespace verbena::engine {

/// What a check found: nothing, or the answer that refuses the request.
using Refusal = std::optional<packet::Syndrome>;

inline constexpr packet::Syndrome kInvalidRequest =
    packet::Syndrome::nak(packet::NakCode::invalid_request);
inline constexpr packet::Syndrome kNoAccess =
    packet::Syndrome::nak(packet::NakCode::remote_access_error);

/// C9-72 ff.: FIRST or ONLY begins a message, MIDDLE and LAST continue the same kind.
[[nodiscard]] Refusal check_order(const Responder& r, const packet::Packet& p);

/// C9-81: the queue pair must permit the operation. Flushing goes by the region alone.
[[nodiscard]] Refusal check_permitted(const QueuePair& qp, const packet::Packet& p);

/// XRC: the receive queue that the request names must exist in this XRC domain. It is chosen for
/// the message.
[[nodiscard]] Refusal check_srq(const Services& services, QueuePair& qp, const packet::Packet& p);

/// C9-86, the RNR rule: a request that needs a receive takes one, or is told to wait
/// (min_rnr_timer of the queue pair).
[[nodiscard]] Refusal check_receive(Services& services, QueuePair& qp, const packet::Packet& p);

/// C9-90: at most max_dest_rd_atomic responses may wait.
[[nodiscard]] Refusal check_depth(const QueuePair& qp, const packet::Packet& p);

/// C9-97 ff.
[[nodiscard]] Refusal check_length(const QueuePair& qp, const packet::Packet& p);

/// C9-104, C9-112: key, domain, access and bounds, before a byte moves.
[[nodiscard]] Refusal check_memory(const Services& services, const QueuePair& qp,
                                   const packet::Packet& p);

}  // namespace verbena::engine
