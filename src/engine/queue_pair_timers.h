#pragma once

// The timers of a queue pair. Each part keeps its own; the queue pair has one place in the
// TimerQueue for all of them.

#include "base/time.h"
#include "packet/frame.h"

namespace verbena::engine {

struct QueuePair;
struct Services;

/// When expire() must be called.
[[nodiscard]] Instant next_deadline(const QueuePair& qp);

/// Does what is due: retries, the end of an RNR wait, an acknowledgement that was delayed. `sink`
/// knows how far requests have come.
void expire(Services& services, QueuePair& qp, const packet::FrameSink& sink, Instant now);

/// Nothing more is sent of the send queue, so nothing is sent again.
void stop_request_timers(QueuePair& qp);

}  // namespace verbena::engine
