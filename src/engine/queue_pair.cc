#include "engine/queue_pair.h"

#include <algorithm>

namespace verbena::engine {

namespace {

CompletionKind kind_of(SendKind kind) {
  switch (kind) {
    case SendKind::read:
      return CompletionKind::read;
    case SendKind::write:
    case SendKind::write_immediate:
      return CompletionKind::write;
    case SendKind::send:
    case SendKind::send_immediate:
      return CompletionKind::send;
  }
  return CompletionKind::send;
}

}  // namespace

void complete(Services& services, QueuePair& qp, CompletionQueue& cq, const Completion& c) {
  switch (cq.push(c)) {
    case CompletionQueue::Pushed::quietly:
      return;
    case CompletionQueue::Pushed::raise_event:
      services.notifications.push_back(&cq);
      return;
    case CompletionQueue::Pushed::overrun:
      ++services.counters.cq_overruns;
      enter_error(services, qp);
      return;
  }
}

void complete_send(Services& services, QueuePair& qp, CompletionStatus status) {
  const SendWqe& wqe = qp.sq.at(qp.sq.head());
  const Completion done{.wr_id = wqe.wr_id,
                        .status = status,
                        .kind = kind_of(wqe.kind),
                        .byte_count = status == CompletionStatus::success ? wqe.length : 0,
                        .qpn = qp.qpn};
  const bool wanted = wqe.signaled || status != CompletionStatus::success;
  qp.sq.retire();  // from here on a post may take its place
  if (wanted) complete(services, qp, *qp.send_cq, done);
}

void fail_send(Services& services, QueuePair& qp, CompletionStatus status) {
  ++services.counters.send_err;
  if (qp.sq.head() != qp.sq.tail()) complete_send(services, qp, status);
  enter_error(services, qp);
}

void enter_error(Services& services, QueuePair& qp) {
  if (qp.state.exchange(QpState::error) == QpState::error) return;
  qp.completer.timeout_at = kNever;
  qp.completer.early_at = kNever;
  qp.requester.wait_until = Instant{};
  flush(services, qp);
}

void flush(Services& services, QueuePair& qp) {
  while (qp.sq.head() != qp.sq.tail()) complete_send(services, qp, CompletionStatus::flushed);
  while (!qp.rq.empty()) {
    const Completion flushed{.wr_id = qp.rq.front().wr_id,
                             .status = CompletionStatus::flushed,
                             .kind = CompletionKind::receive,
                             .qpn = qp.qpn};
    qp.rq.pop();
    complete(services, qp, *qp.receive_cq, flushed);
  }
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
    const bool granted = region != nullptr && region->pd == pd &&
                         (region->access & access) == access &&
                         region->contains(s.address, s.length);
    if (!granted) return false;
    out.push_back({region->translate(s.address + offset), bytes});
    length -= bytes;
    offset = 0;
  }
  return length == 0;
}

}  // namespace verbena::engine
