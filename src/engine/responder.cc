#include "engine/responder.h"

#include <chrono>
#include <new>

#include "engine/message_rules.h"
#include "engine/queue_pair.h"
#include "engine/receive_side.h"
#include "engine/responder_checks.h"
#include "engine/responder_duplicates.h"
#include "engine/responder_execution.h"

namespace verbena::engine {

using packet::NakCode;
using packet::Packet;
using packet::Syndrome;

namespace {

/// Of the receive that a request may take.
std::uint32_t max_receive_sge(const Services& services, QueuePair& qp, const Packet& p) {
  if (qp.type != QpType::xrc_receive) return receive_queue(qp).max_sge();
  const auto named = services.srqs.find(p.xrceth.xrcsrq);
  return named != services.srqs.end() ? named->second->max_sge() : 0;
}

}  // namespace

bool make_room(const Services& services, QueuePair& qp, const Packet& p) try {
  Responder& r = qp.responder;
  if (is_answered(p.info().kind)) r.responses.make_room();
  if (is_atomic(p.info().kind)) r.atomics.make_room();
  if (takes_receive(p)) r.receive.sges.reserve(max_receive_sge(services, qp, p));
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

void handle_request(Services& services, QueuePair& qp, const Packet& p) {
  Responder& r = qp.responder;
  const auto ahead = distance(p.bth.psn, r.expected);
  if (ahead < 0) {
    handle_duplicate(services, qp, p);
    return;
  }
  if (ahead > 0) {
    ++qp.counters.out_of_seq_request;
    if (!r.nak_sent) {
      r.nak_sent = true;
      r.answer = Syndrome::nak(NakCode::psn_sequence_error);
    }
    return;
  }

  Refusal refusal = check_order(r, p);
  if (!refusal) refusal = check_permitted(qp, p);
  if (!refusal) refusal = check_srq(services, qp, p);
  if (!refusal) refusal = check_receive(services, qp, p);
  if (!refusal) refusal = check_depth(qp, p);
  if (!refusal) refusal = check_length(qp, p);
  if (!refusal) refusal = check_memory(services, qp, p);
  if (refusal && refusal->type() == Syndrome::Type::rnr_nak) {
    ++qp.counters.send_rnr_err;
    r.answer = refusal;
    r.nak_sent = true;  // what follows is dropped until this request comes again
    return;
  }
  if (refusal) {
    refuse(services, qp, *refusal);
    return;
  }

  r.nak_sent = false;
  execute(services, qp, p);
}

void note_congestion(Responder& r, Instant now) {
  constexpr Duration kSpacing = std::chrono::microseconds{50};
  if (now < r.next_notice) return;
  r.congested = true;
  r.next_notice = now + kSpacing;
}

void note_request_sent(Responder& r, Instant now) { r.ack_delay.answered(now); }

void drop_answers(Responder& r) {
  r.responses.clear();
  r.answer.reset();
}

bool forget_srq(Responder& r, const SharedReceiveQueue& srq) {
  if (r.xrc_srq != &srq) return false;
  r.xrc_srq = nullptr;
  return std::exchange(r.receive.taken, false);
}

}  // namespace verbena::engine
