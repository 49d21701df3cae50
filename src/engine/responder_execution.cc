#include "engine/responder_execution.h"

#include <algorithm>
#include <optional>

#include "engine/message_rules.h"
#include "engine/payload_placement.h"
#include "engine/receive_side.h"
#include "engine/remote_access.h"
#include "engine/responder_checks.h"
#include "engine/window_binding.h"

namespace verbena::engine {

using packet::Kind;
using packet::NakCode;
using packet::Packet;
using packet::Syndrome;

namespace {

/// Finishes pending copies before the program sees the end and uses its memory for something else.
void finish_copies(Services& services, const QueuePair& qp) {
  if (services.copies.owner() == &qp) static_cast<void>(services.copies.finish());
}

/// The program's own receive is no good.
void refuse_receive(Services& services, QueuePair& qp) {
  finish_copies(services, qp);
  qp.responder.answer = Syndrome::nak(NakCode::remote_operational_error);
  fail_receive_and_queue_pair(services, qp);
}

bool execute_send(Services& services, QueuePair& qp, const Packet& p) {
  switch (place_send(services, qp, p.payload, qp.responder.received)) {
    case Placed::yes:
      break;
    case Placed::too_long:
      finish_copies(services, qp);
      fail_receive(services, qp, CompletionStatus::local_length_error);
      refuse(services, qp, kInvalidRequest);
      return false;
    case Placed::fault:
      refuse_receive(services, qp);
      return false;
  }
  if (p.info().ieth && !invalidate_remotely(services, qp, p.ieth.rkey)) {
    refuse(services, qp, kNoAccess);
    return false;
  }
  return true;
}

/// How long the acknowledgement of a whole message may wait for the program's answer.
Duration let_answer_wait(const Services& services, QueuePair& qp, const Packet& p) {
  const auto& woken = services.notifications;
  AckDelay& ack_delay = qp.responder.ack_delay;
  if (!services.caller_takes_events && completes_receive(p) &&
      std::find(woken.begin(), woken.end(), qp.receive_cq) != woken.end()) {
    ack_delay.woken();
    return {};
  }
  return ack_delay.heard(services.now);
}

void execute_data(Services& services, QueuePair& qp, const Packet& p) {
  Responder& r = qp.responder;
  const auto& info = p.info();
  note_message(r, p);
  if (info.kind == Kind::send) {
    if (!execute_send(services, qp, p)) return;
  } else if (!place_write(services, qp, p.payload)) {
    refuse(services, qp, kNoAccess);
    return;
  }
  note_placed(r, p);
  r.expected = r.expected.next();
  if (info.last) {
    r.msn = (r.msn + 1) & Psn::kMask;
    if (completes_receive(p)) complete_receive(services, qp, p);
    // Nobody will hear of it: then the peer must not think so.
    if (qp.state.load(std::memory_order_relaxed) == QpState::error) {
      r.expected = p.bth.psn;
      r.msn = (r.msn - 1) & Psn::kMask;
      return;
    }
  }
  if (p.bth.ack_request && r.answer) ++qp.counters.ack_deferred;
  // A gap that has been filled needs no NAK any more.
  if (p.bth.ack_request || r.answer) r.answer = Syndrome::ack();
  r.answer_by = services.now;
  if (info.last) r.answer_by += let_answer_wait(services, qp, p);
}

/// What the word held; a duplicate gets the same answer. nullopt: the memory is gone.
std::optional<std::uint64_t> execute_atomic(Services& services, QueuePair& qp, const Packet& p) {
  Responder& r = qp.responder;
  const packet::AtomicEth& a = p.atomic_eth;
  const MemoryRegion& region = *services.keys.find(a.rkey);
  const std::uint64_t word = region.translate(a.address);
  const auto original = p.info().kind == Kind::compare_swap
                            ? region.backing->compare_swap(word, a.compare, a.swap_or_add)
                            : region.backing->fetch_add(word, a.swap_or_add);
  if (!original) return std::nullopt;
  r.atomics.push_back({p.bth.psn, *original});
  if (r.atomics.size() > qp.attributes.max_dest_rd_atomic) r.atomics.pop_front();
  return original;
}

bool execute_atomic_write(Services& services, const Packet& p) {
  std::uint64_t value = 0;
  std::copy(p.payload.begin(), p.payload.end(), reinterpret_cast<std::uint8_t*>(&value));
  const MemoryRegion& region = *services.keys.find(p.reth.rkey);
  return region.backing->store(region.translate(p.reth.address), value);
}

/// READ, atomics, FLUSH, ATOMIC_WRITE: each is answered by a response.
void execute_answered(Services& services, QueuePair& qp, const Packet& p) {
  Responder& r = qp.responder;
  Response response{.to = p.info().kind, .psn = p.bth.psn, .source = p.reth, .pd = remote_pd(qp)};
  std::uint32_t psns = 1;
  if (p.info().kind == Kind::read_request) {
    psns = packets_of(p.reth.length, qp.attributes.path_mtu);
  } else if (is_atomic(p.info().kind)) {
    const auto original = execute_atomic(services, qp, p);
    if (!original) {
      refuse(services, qp, kNoAccess);
      return;
    }
    response.original = *original;
  } else if (p.info().kind == Kind::atomic_write && !execute_atomic_write(services, p)) {
    refuse(services, qp, kNoAccess);
    return;
  }
  // FLUSH: what arrived before it is in its place (see Copies), so there is nothing left to flush.
  r.expected = r.expected + psns;
  r.msn = (r.msn + 1) & Psn::kMask;
  response.msn = r.msn;
  r.answer.reset();  // the response acknowledges all before it
  r.responses.push_back(response);
}

}  // namespace

void execute(Services& services, QueuePair& qp, const Packet& p) {
  is_answered(p.info().kind) ? execute_answered(services, qp, p) : execute_data(services, qp, p);
}

void refuse(Services& services, QueuePair& qp, Syndrome syndrome) {
  finish_copies(services, qp);
  qp.responder.answer = syndrome;
  enter_error(services, qp,
              syndrome.nak_code() == NakCode::remote_access_error ? EventKind::qp_access_error
                                                                  : EventKind::qp_request_error);
}

void refuse_unplaced(Services& services, QueuePair& qp) {
  // The newest that came: the peer knows no PSN behind it yet.
  qp.responder.expected = qp.responder.expected.previous();
  if (qp.responder.message == Kind::send) {
    refuse_receive(services, qp);
  } else {
    refuse(services, qp, kNoAccess);
  }
}

}  // namespace verbena::engine
