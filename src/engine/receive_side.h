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

/// Where the next receive comes from.
[[nodiscard]] inline ReceiveQueue& receive_queue(QueuePair& qp) {
  SharedReceiveQueue* const srq = shared_queue(qp);
  return srq != nullptr ? *srq : qp.rq;
}

/// A receive for the message that begins. False: there is none.
[[nodiscard]] bool take_receive(Services& services, QueuePair& qp);

/// The message is whole: its receive completes.
void complete_receive(Services& services, QueuePair& qp, const packet::Packet& p);

/// The same for `done`, which needs no wr_id and no qpn.
void complete_receive(Services& services, QueuePair& qp, Completion done);

/// The taken receive ends with an error.
void fail_receive(Services& services, QueuePair& qp, CompletionStatus status);

/// The taken receive can't be filled, and that is the program's own doing: it fails, and the queue
/// pair with it.
void fail_receive_and_queue_pair(Services& services, QueuePair& qp);

/// All receives of the queue pair's own complete as flushed, first the taken one.
void flush_receives(Services& services, QueuePair& qp);

}  // namespace verbena::engine
