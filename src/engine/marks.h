#pragma once

// The receiving side of marks: a sender of UC or UD asks how far we have come; see Pace.

#include "engine/queue_pair.h"
#include "packet/frame.h"
#include "packet/packet.h"

namespace verbena::engine {

/// A peer wants to know when we have taken what came before this; see Pace.
void handle_mark(Services& services, QueuePair& qp, const packet::Datagram& datagram,
                 const packet::Packet& p);

/// False: the sink was full.
[[nodiscard]] bool transmit_reached_marks(Services& services, QueuePair& qp,
                                          packet::FrameSink& sink);

}  // namespace verbena::engine
