#include "engine/queue_pair.h"

#include <algorithm>

#include "engine/placement.h"

namespace verbena::engine {

namespace {

void flush_sends(Services& services, QueuePair& qp) {
  while (qp.sq.head() != qp.sq.tail()) complete_send(services, qp, CompletionStatus::flushed);
}

void flush_receives(Services& services, QueuePair& qp) {
  fail_receive(services, qp, CompletionStatus::flushed);  // the one that was being filled
  while (!qp.rq.empty()) {
    qp.responder.receive.taken = true;
    qp.responder.receive.wr_id = qp.rq.drop();
    fail_receive(services, qp, CompletionStatus::flushed);
  }
}

void stop(QueuePair& qp) {
  qp.completer.timeout_at = kNever;
  qp.completer.early_at = kNever;
  qp.requester.wait_until = Instant{};
}

}  // namespace

QpState change_state(Services& services, QueuePair& qp, QpState to) {
  const QpState from = qp.state.exchange(to);
  if (from != to && services.observer != nullptr) services.observer->state_changed(qp, from, to);
  return from;
}

std::string_view name_of(RetryCause c) {
  switch (c) {
    case RetryCause::timeout:
      return "timeout";
    case RetryCause::early:
      return "early";
    case RetryCause::sequence_nak:
      return "sequence_nak";
    case RetryCause::missing_response:
      return "missing_response";
    case RetryCause::rnr_nak:
      return "rnr_nak";
  }
  return "?";
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
      if (cq.fail()) services.tell({.kind = EventKind::cq_error, .cq = &cq});
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
  stop(qp);
  flush(services, qp);
}

void enter_error(Services& services, QueuePair& qp, std::optional<EventKind> why) {
  if (change_state(services, qp, QpState::error) == QpState::error) return;
  if (why) services.tell({.kind = *why, .qp = &qp});
  qp.responder.answer_by = Instant{};  // no request will leave that it could leave with
  stop(qp);
  flush(services, qp);
  // IBA 11.6.3.1.4: receives that a shared queue handed out are through.
  if (qp.srq != nullptr) {
    services.tell({.kind = EventKind::last_wqe_reached, .qp = &qp});
  }
}

void flush(Services& services, QueuePair& qp) {
  flush_sends(services, qp);
  qp.requester.wqe = qp.sq.head();
  qp.requester.packet = 0;
  qp.requester.fault.reset();
  if (qp.state.load(std::memory_order_relaxed) == QpState::error) flush_receives(services, qp);
}

bool resolve(const KeyTable& keys, PdId pd, std::span<const Sge> sges, std::uint32_t offset,
             std::uint32_t length, unsigned access, std::vector<Segment>& out) {
  out.clear();
  for (const Sge& s : sges) {
    if (length == 0) break;
    if (offset >= s.length) {
      offset -= s.length;
      continue;
    }
    const std::uint32_t bytes = std::min(length, s.length - offset);
    const MemoryRegion* region = keys.find(s.lkey);
    const bool granted = region != nullptr && region->type == MemoryRegion::Type::region &&
                         region->pd == pd && (region->access & access) == access &&
                         region->contains(s.address, s.length);
    if (!granted) return false;
    out.push_back({region->translate(s.address + offset), bytes});
    length -= bytes;
    offset = 0;
  }
  return length == 0;
}

}  // namespace verbena::engine
