#include "engine/queue_pair.h"

#include "engine/queue_pair_timers.h"
#include "engine/receive_side.h"

namespace verbena::engine {

namespace {

void flush_sends(Services& services, QueuePair& qp) {
  while (qp.sq.head() != qp.sq.tail()) complete_send(services, qp, CompletionStatus::flushed);
}

}  // namespace

QpState change_state(Services& services, QueuePair& qp, QpState to) {
  const QpState from = qp.state.exchange(to);
  if (from != to && services.observer != nullptr) services.observer->state_changed(qp, from, to);
  return from;
}

void drop(Services& services, QueuePair& qp, CounterField reason, DroppedFrame frame) {
  ++(qp.counters.*reason);
  if (services.observer == nullptr) return;
  frame.reason = name_of(reason);
  frame.qp = &qp;
  services.observer->dropped(frame);
}

void complete(Services& services, QueuePair& qp, CompletionQueue& cq, const Completion& c) {
  if (services.observer != nullptr) services.observer->completed(c);
  Completion stamped = c;
  stamped.at = services.now;
  switch (cq.push(stamped)) {
    case CompletionQueue::Pushed::quietly:
      return;
    case CompletionQueue::Pushed::raise_event:
      services.notify(cq);
      return;
    case CompletionQueue::Pushed::raise_later:
      services.notify_later(cq);
      return;
    case CompletionQueue::Pushed::overrun:
      // IBA 11.6.3.1.2: the queue is in error, and everybody who completes into it.
      ++qp.counters.cq_overruns;
      if (cq.fail()) services.raise({.kind = EventKind::cq_error, .cq = &cq});
      enter_error(services, qp, EventKind::qp_fatal);
      return;
  }
}

void complete_send(Services& services, QueuePair& qp, CompletionStatus status) {
  const SendWqe& wqe = qp.sq.at(qp.sq.head());
  const bool ok = status == CompletionStatus::success;
  const Completion done{.wr_id = wqe.request.wr_id,
                        .status = status,
                        .kind = wqe.info().completion,
                        .byte_count = ok ? wqe.length : 0,
                        .qpn = qp.qpn};
  if (ok && done.kind == CompletionKind::send) ++qp.counters.rdma_sends;
  const bool wanted = wqe.request.signaled || !ok;
  qp.sq.retire();  // from here on a post may take its place
  if (wanted) complete(services, qp, *qp.send_cq, done);
}

void fail_send(Services& services, QueuePair& qp, CompletionStatus status) {
  ++qp.counters.send_err;
  if (qp.sq.head() != qp.sq.tail()) complete_send(services, qp, status);
  if (qp.reliable()) {
    enter_error(services, qp);
    return;
  }
  // Receiving goes on.
  if (qp.state.load(std::memory_order_relaxed) == QpState::error) return;
  change_state(services, qp, QpState::sqe);
  stop_request_timers(qp);
  flush(services, qp);
}

void enter_error(Services& services, QueuePair& qp, std::optional<EventKind> why) {
  if (change_state(services, qp, QpState::error) == QpState::error) return;
  if (why) services.raise({.kind = *why, .qp = &qp});
  acknowledge_now(qp.responder);
  stop_request_timers(qp);
  flush(services, qp);
  // IBA 11.6.3.1.4: receives that a shared queue handed out are through.
  if (qp.srq != nullptr) {
    services.raise({.kind = EventKind::last_wqe_reached, .qp = &qp});
  }
}

void flush(Services& services, QueuePair& qp) {
  flush_sends(services, qp);
  forget_requests(qp);
  if (qp.state.load(std::memory_order_relaxed) == QpState::error) flush_receives(services, qp);
}

}  // namespace verbena::engine
