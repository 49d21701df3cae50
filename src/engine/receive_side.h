#pragma once

// The receive that a message fills: taken from its queue, completed or failed. RC, XRC, UC, UD and
// raw packets share it.

#include "engine/queue_pair.h"
#include "packet/packet.h"

namespace verbena::engine {

/// The shared receive queue that the next receive comes from, or nullptr: the queue pair's own.
[[nodiscard]] inline SharedReceiveQueue* shared_queue(const QueuePair& qp) {
  return qp.type == QpType::xrc_receive ? qp.responder.xrc_srq : qp.srq;
}

/// A receive for the message that begins. False: there is none.
[[nodiscard]] bool take_receive(Services& services, QueuePair& qp);

/// The message is whole: its receive completes.
void complete_receive(Services& services, QueuePair& qp, const packet::Packet& p);

/// The taken receive ends with an error.
void fail_receive(Services& services, QueuePair& qp, CompletionStatus status);

/// The taken receive can't be filled, and that is the program's own doing: it fails, and the queue
/// pair with it.
void fail_receive_and_queue_pair(Services& services, QueuePair& qp);

/// All receives of the queue pair's own complete as flushed, first the taken one.
void flush_receives(Services& services, QueuePair& qp);

}  // namespace verbena::engine
