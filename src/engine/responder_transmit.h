#pragma once

// What the responder sends: responses, acknowledgements, NAKs, congestion notices.

#include "engine/queue_pair.h"
#include "engine/requester.h"
#include "packet/frame.h"

namespace verbena::engine {

/// There is something for transmit_responses(), and it can't wait for a request to leave with.
[[nodiscard]] bool responses_are_due(const Services& services, QueuePair& qp);
/// Sends responses and the answer if it is due, at most `budget` packets.
[[nodiscard]] Sent transmit_responses(Services& services, QueuePair& qp, packet::FrameSink& sink,
                                      unsigned budget);

/// The queue pair is about to go, or to serve no more. The peer may still wait for an ACK that the
/// network lost, and nobody will be here to repeat it: so it is repeated now.
void transmit_last_ack_again(Services& services, QueuePair& qp, packet::FrameSink& sink);

}  // namespace verbena::engine
