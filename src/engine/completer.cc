#include "engine/completer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <utility>

#include "engine/queue_pair.h"
#include "engine/requester.h"
#include "engine/scatter_gather.h"
#include "engine/services.h"
#include "engine/transport_timer.h"
#include "packet/rnr_timer.h"

namespace verbena::engine {

namespace {

bool anything_outstanding(const QueuePair& qp) {
  return distance(qp.requester.end, qp.completer.unacked) > 0;
}

void start_timers(QueuePair& qp, Instant now) {
  Completer& c = qp.completer;
  // Where nothing is lost, a late answer is only late.
  const Instant early =
      qp.requester.course.way == packet::Way::network ? now + c.early_timeout : kNever;
  if (qp.attributes.timeout == 0) {
    c.timeout_at = kNever;
    c.early_at = early;
    return;
  }
  const Duration timeout = transport_timeout(qp.attributes.timeout);
  c.timeout_at = now + timeout;
  // Early tries stop where they would meet the timer.
  c.early_at = c.early_timeout < timeout / 2 ? early : kNever;
}

/// What leaves next is the oldest that nothing has answered.
void restart(QueuePair& qp) {
  move_cursor(qp, qp.completer.unacked);
  qp.completer.window.went_back();
}

/// Nothing came back in time: a loss, it seems.
void note_overdue(QueuePair& qp, Instant now) {
  Completer& c = qp.completer;
  if (!c.overdue || c.overdue->from != c.unacked) {
    c.overdue = Overdue{c.unacked, qp.requester.end, c.window.size()};
  }
  c.overdue->asked_again_at = now;
  c.window.collapse(qp.requester.end);
}

/// No request was lost, though an answer may have been.
void undo_collapse(QueuePair& qp) {
  qp.completer.window.restore(qp.completer.overdue->before);
  qp.completer.overdue.reset();
}

/// Nothing was lost: the peer is slow to answer.
void note_late(QueuePair& qp, Instant now) {
  Completer& c = qp.completer;
  undo_collapse(qp);
  c.round_trip.was_late(now);
  c.early_timeout = std::max(c.early_timeout, c.round_trip.timeout());
}

/// An answer to what is complete already. Where it was asked for twice, and no answer was lost, all
/// of them come twice.
void note_ghost(QueuePair& qp, const packet::Packet& p, Instant now) {
  const auto& overdue = qp.completer.overdue;
  const bool asked_twice =
      overdue && distance(p.bth.psn, overdue->from) >= 0 && distance(p.bth.psn, overdue->end) < 0;
  if (asked_twice && p.info().kind != packet::Kind::acknowledge) note_late(qp, now);
}

/// The peer answers for the first time since. Had it only missed what was lost, it would have
/// answered the repetition within a round trip: it was away.
bool was_away(const QueuePair& qp, Instant now) {
  const Completer& c = qp.completer;
  return c.overdue && !c.overdue->answered &&
         now - c.overdue->asked_again_at > c.round_trip.timeout();
}

/// The peer answers, packets that took `cost` of the window: retries begin anew.
void note_progress(QueuePair& qp, std::uint32_t cost, Instant now) {
  // A completion queue that overran has ended the queue pair, and with it the timers.
  if (qp.state.load(std::memory_order_relaxed) == QpState::error) return;
  Completer& c = qp.completer;
  c.retries_left = qp.attributes.retry_count;
  c.rnr_retries_left = qp.attributes.rnr_retry;
  c.gap.reset();
  // The responder takes packets in order only: an acknowledgement of what has not been sent again
  // is one of what was sent before, so nothing was lost.
  const bool beyond = distance(qp.requester.psn, c.unacked) < 0;
  if (was_away(qp, now)) note_late(qp, now);
  if (beyond && c.overdue && distance(c.overdue->end, c.unacked) >= 0) undo_collapse(qp);
  if (c.overdue) c.overdue->answered = true;
  c.window.acknowledged(cost, c.unacked);
  // RFC 6298, 5.7: without a sample, a timeout that has grown stays; the path may be that slow.
  if (c.round_trip.acknowledged(c.unacked.previous(), now)) {
    c.early_timeout = c.round_trip.timeout();
  }
  note_acknowledged(qp.requester, c.unacked);
  c.peer.answered();
  if (beyond) restart(qp);
  anything_outstanding(qp) ? start_timers(qp, now) : stop_timers(c);
}

/// Requests at the head that are through: all their PSNs are answered.
void complete_finished(Services& services, QueuePair& qp) {
  while (qp.sq.head() != qp.sq.tail()) {
    const SendWqe& wqe = qp.sq.at(qp.sq.head());
    const bool answered = wqe.started && distance(qp.completer.unacked, wqe.end_psn()) >= 0;
    if (!answered || (wqe.packets == 0 && !wqe.done)) return;
    if (wqe.info().takes_receive()) qp.completer.credits.completed(wqe.receive);
    complete_send(services, qp, CompletionStatus::success);
  }
}

/// All PSNs before `end` are answered. Stops at a request whose response is missing: false then,
/// the hole begins at `unacked` (IBA 9.7.5.1.4: an answer to a later request implies the loss).
bool acknowledge_before(Services& services, QueuePair& qp, Psn end, Instant now) {
  Completer& c = qp.completer;
  std::uint32_t cost = 0;
  bool whole = true;
  while (distance(end, c.unacked) > 0 && qp.sq.head() != qp.sq.tail()) {
    const SendWqe& wqe = qp.sq.at(qp.sq.head());
    if (wqe.info().answered) {
      whole = false;
      break;
    }
    const Psn upto = distance(end, wqe.end_psn()) < 0 ? end : wqe.end_psn();
    cost += static_cast<std::uint32_t>(distance(upto, c.unacked)) * packet_cost(qp, wqe);
    c.unacked = upto;
    complete_finished(services, qp);
  }
  if (cost > 0) note_progress(qp, cost, now);
  return whole;
}

void fail(Services& services, QueuePair& qp, CompletionStatus status) {
  // Nothing arrives in a READ's memory any more when the program hears of its end.
  if (services.copies.owner() == &qp) static_cast<void>(services.copies.finish());
  stop_timers(qp.completer);
  fail_send(services, qp, status);
}

void go_back(Services& services, QueuePair& qp, RetryCause why, Instant now) {
  ++qp.counters.completer_retry_err;
  if (services.observer != nullptr) services.observer->retried(qp, why, qp.completer.unacked);
  qp.completer.round_trip.went_back();
  restart(qp);
  start_timers(qp, now);
}

/// A retry that counts (IBA 9.7.6.1.1).
void retry(Services& services, QueuePair& qp, RetryCause why, Instant now) {
  Completer& c = qp.completer;
  if (c.retries_left == 0) {
    ++qp.counters.retry_exceeded_err;
    fail(services, qp, CompletionStatus::retry_exceeded);
    return;
  }
  --c.retries_left;
  go_back(services, qp, why, now);
}

/// Responses are missing from `unacked` on. Those behind the hole keep arriving: ask once.
void retry_gap(Services& services, QueuePair& qp, Instant now) {
  Completer& c = qp.completer;
  if (c.gap == c.unacked) return;
  c.window.lost(qp.requester.end);
  const Psn hole = c.unacked;
  retry(services, qp, RetryCause::missing_response, now);
  c.gap = hole;
}

void wait_for_receiver(Services& services, QueuePair& qp, std::uint8_t timer, Instant now) {
  Completer& c = qp.completer;
  ++qp.counters.rcvd_rnr_err;
  if (qp.attributes.rnr_retry != 7) {  // 7: for ever
    if (c.rnr_retries_left == 0) {
      ++qp.counters.retry_rnr_exceeded_err;
      fail(services, qp, CompletionStatus::rnr_retry_exceeded);
      return;
    }
    --c.rnr_retries_left;
  }
  // It answers. What rxe says behind each RNR NAK may come when we have sent again, and must not
  // use up the retries of a request that waits for its receive, however long.
  c.retries_left = qp.attributes.retry_count;
  if (services.observer != nullptr) services.observer->retried(qp, RetryCause::rnr_nak, c.unacked);
  c.round_trip.went_back();
  restart(qp);
  stop_timers(c);
  wait_until(qp.requester, now + packet::rnr_delay(timer));
}

void handle_nak(Services& services, QueuePair& qp, packet::NakCode code, Instant now) {
  using packet::NakCode;
  switch (code) {
    case NakCode::psn_sequence_error:
      ++qp.counters.rcvd_seq_err;
      // rxe sends one for what followed a request that it answered with an RNR NAK. We know
      // already, and were told to wait.
      if (is_waiting(qp.requester, now)) return;
      qp.completer.window.lost(qp.requester.end);
      retry(services, qp, RetryCause::sequence_nak, now);
      return;
    case NakCode::invalid_request:
      fail(services, qp, CompletionStatus::remote_invalid_request);
      return;
    case NakCode::remote_access_error:
      fail(services, qp, CompletionStatus::remote_access_error);
      return;
    case NakCode::remote_operational_error:
      fail(services, qp, CompletionStatus::remote_operation_error);
      return;
    case NakCode::invalid_rd_request:
      break;
  }
  fail(services, qp, CompletionStatus::bad_response);
}

void handle_acknowledge(Services& services, QueuePair& qp, const packet::Packet& p, Instant now) {
  using Type = packet::Syndrome::Type;
  const packet::Syndrome syndrome = p.aeth.syndrome;
  if (syndrome.type() == Type::reserved) {
    drop(services, qp, &Counters::drop_response, p);
    return;
  }
  // A NAK acknowledges what is before it, an ACK what it names, too.
  const bool ack = syndrome.type() == Type::ack;
  if (!acknowledge_before(services, qp, ack ? p.bth.psn.next() : p.bth.psn, now)) {
    retry_gap(services, qp, now);
    return;
  }
  if (ack) qp.completer.credits.granted(syndrome);
  // It may have ended the queue pair: its completion queue overran.
  if (ack || qp.completer.unacked != p.bth.psn ||
      qp.state.load(std::memory_order_relaxed) == QpState::error) {
    return;
  }
  if (syndrome.type() == Type::rnr_nak) {
    wait_for_receiver(services, qp, syndrome.rnr_timer(), now);
  } else {
    handle_nak(services, qp, syndrome.nak_code(), now);
  }
}

/// The bytes of a response: those of a READ packet, or the word of an atomic.
bool place_response(Services& services, QueuePair& qp, std::span<const std::uint8_t> bytes,
                    std::uint32_t offset) {
  return bytes.empty() || (resolve(services.keys, qp.pd, qp.sq.sges(qp.sq.head()), offset,
                                   static_cast<std::uint32_t>(bytes.size()), Access::kLocalWrite,
                                   services.segments) &&
                           services.copies.scatter(bytes, services.segments));
}

/// The word comes in network order and is delivered in the machine's (IBA 9.4.5).
bool place_original(Services& services, QueuePair& qp, std::uint64_t original) {
  if (!resolve(services.keys, qp.pd, qp.sq.sges(qp.sq.head()), 0, 8, Access::kLocalWrite,
               services.segments)) {
    return false;
  }
  const auto bytes = std::bit_cast<std::array<std::uint8_t, 8>>(original);
  return services.copies.scatter(bytes, services.segments);
}

/// IBA 11.6.2, "bad response": the opcode is none that answers this request. A READ that was asked
/// for in pieces, or again, may begin and end in the middle, but not go on beyond its ends.
bool opcode_fits(const SendWqe& wqe, const packet::Packet& p) {
  const packet::OpcodeInfo& info = p.info();
  switch (wqe.request.kind) {
    case SendKind::compare_swap:
    case SendKind::fetch_add:
      return info.kind == packet::Kind::atomic_acknowledge;
    case SendKind::read: {
      const bool at_begin = p.bth.psn == wqe.first_psn;
      const bool at_end = p.bth.psn.next() == wqe.end_psn();
      return info.kind == packet::Kind::read_response && (info.first || !at_begin) &&
             (info.last || !at_end);
    }
    case SendKind::flush:
    case SendKind::atomic_write:
      return info.kind == packet::Kind::read_response && info.first && info.last;
    default:
      return false;
  }
}

/// READ response, atomic acknowledge.
void handle_own_response(Services& services, QueuePair& qp, const packet::Packet& p, Instant now) {
  Completer& c = qp.completer;
  // A response acknowledges the requests before its own.
  if (!acknowledge_before(services, qp, p.bth.psn, now)) {
    retry_gap(services, qp, now);
    return;
  }
  if (c.unacked != p.bth.psn || qp.sq.head() == qp.sq.tail()) {
    drop(services, qp, &Counters::drop_response, p);
    return;
  }
  const SendWqe& wqe = qp.sq.at(qp.sq.head());
  if (!opcode_fits(wqe, p)) {
    fail(services, qp, CompletionStatus::bad_response);
    return;
  }

  const std::uint32_t mtu = qp.attributes.path_mtu;
  const auto offset = static_cast<std::uint32_t>(distance(p.bth.psn, wqe.first_psn)) * mtu;
  const std::uint32_t expected =
      wqe.request.kind == SendKind::read ? std::min(mtu, wqe.length - offset) : 0;
  if (p.payload.size() != expected) {
    fail(services, qp, CompletionStatus::bad_response);
    return;
  }
  const bool atomic = p.info().kind == packet::Kind::atomic_acknowledge;
  const bool placed = atomic ? place_original(services, qp, p.atomic_ack_eth.original)
                             : place_response(services, qp, p.payload, offset);
  if (!placed) {
    fail(services, qp, CompletionStatus::local_protection_error);
    return;
  }
  const std::uint32_t cost = packet_cost(qp, wqe);
  c.unacked = p.bth.psn.next();
  complete_finished(services, qp);
  if (p.info().aeth) c.credits.granted(p.aeth.syndrome);
  note_progress(qp, cost, now);
}

}  // namespace

std::uint32_t packet_cost(const QueuePair& qp, const SendWqe& wqe) {
  return Window::truesize(std::min<std::uint32_t>(wqe.length, qp.attributes.path_mtu));
}

void note_sent(QueuePair& qp, const SendWqe& wqe, std::uint32_t packets, Instant now) {
  Completer& c = qp.completer;
  const Psn psn = qp.requester.psn;
  c.window.sent(packets, packet_cost(qp, wqe));
  const bool again = distance(qp.requester.end, psn) > 0;
  if (!again) c.round_trip.sent(psn, now);
  const bool first = !anything_outstanding(qp);  // a timer may run since it waits for room
  if (first || (c.timeout_at == kNever && c.early_at == kNever)) start_timers(qp, now);
}

void note_gone(Services& services, QueuePair& qp) {
  if (!qp.reliable()) qp.completer.unacked = qp.requester.psn;
  complete_finished(services, qp);
}

void handle_response(Services& services, QueuePair& qp, const packet::Packet& p, Instant now) {
  Completer& c = qp.completer;
  // The last ACK once more: it may come to tell of new receives (IBA 9.7.7.2.3).
  const bool ack = p.info().aeth && p.aeth.syndrome.type() == packet::Syndrome::Type::ack;
  if (ack && p.bth.psn.next() == c.unacked) c.credits.granted(p.aeth.syndrome);
  // Ghosts: answers to what is complete already, or was never asked.
  if (distance(p.bth.psn, c.unacked) < 0 || distance(p.bth.psn, qp.requester.end) >= 0) {
    note_ghost(qp, p, now);
    drop(services, qp, &Counters::drop_response, p);
    return;
  }
  if (p.info().kind == packet::Kind::acknowledge) {
    handle_acknowledge(services, qp, p, now);
  } else {
    handle_own_response(services, qp, p, now);
  }
}

void fail_unplaced_response(Services& services, QueuePair& qp) {
  fail(services, qp, CompletionStatus::local_protection_error);
}

void slow_down(QueuePair& qp) { qp.completer.window.halve(qp.requester.end); }

void begin(Completer& c, const QpAttributes& attributes) {
  c.unacked = attributes.sq_psn;
  c.window = Window{attributes.path_mtu};
  c.overdue.reset();
  c.early_timeout = c.round_trip.timeout();
  c.retries_left = attributes.retry_count;
  c.rnr_retries_left = attributes.rnr_retry;
}

void change_way(Completer& c, const QpAttributes& attributes, packet::Way way) {
  c.overdue.reset();
  c.peer = {};
  c.window = way == packet::Way::host ? Window::lossless() : Window{attributes.path_mtu};
  if (way == packet::Way::host) c.early_at = kNever;
}

bool ask_again(QueuePair& qp, Instant now) {
  const bool lost = qp.reliable() && qp.requester.course.way == packet::Way::host &&
                    takes_responses(qp.state.load(std::memory_order_relaxed)) &&
                    anything_outstanding(qp);
  qp.completer.peer = {};  // the next ring counts anew
  if (lost) qp.completer.early_at = now;
  return lost;
}

bool waits_for_peer(QueuePair& qp, const packet::Passage& passage, Instant now) {
  Completer& c = qp.completer;
  if (!anything_outstanding(qp) || !c.peer.is_only_slow(passage, now)) return false;
  c.retries_left = qp.attributes.retry_count;
  start_timers(qp, now);
  return true;
}

void note_held_back(QueuePair& qp, const packet::Passage& passage, Instant now) {
  Completer& c = qp.completer;
  if (anything_outstanding(qp)) return;
  const bool took_some = c.peer.took_some(passage);
  if (c.timeout_at != kNever && !took_some) return;
  c.retries_left = qp.attributes.retry_count;
  start_timers(qp, now);
}

void stop_timers(Completer& c) {
  c.timeout_at = kNever;
  c.early_at = kNever;
}

void expire_retry_timers(Services& services, QueuePair& qp, Instant now) {
  Completer& c = qp.completer;
  if (now >= c.timeout_at) {
    ++qp.counters.timeouts;
    note_overdue(qp, now);
    retry(services, qp, RetryCause::timeout, now);
    c.gap = c.unacked;
  } else if (now >= c.early_at) {
    ++qp.counters.early_retransmits;
    const Instant timeout_at = c.timeout_at;
    c.early_timeout *= 2;
    note_overdue(qp, now);
    go_back(services, qp, RetryCause::early, now);
    c.gap = c.unacked;
    c.timeout_at = timeout_at;  // it buys no time
  }
}

}  // namespace verbena::engine
