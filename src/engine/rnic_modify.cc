// The states of a queue pair as the program sets them.

#include <array>
#include <cerrno>
#include <charconv>
#include <new>
#include <string>
#include <utility>

#include "engine/rnic.h"
#include "engine/setup_error.h"

namespace verbena::engine {

namespace {

std::string qp_text(const QueuePair& qp) {
  std::array<char, 8> hex{};
  const auto end = std::to_chars(hex.begin(), hex.end(), qp.qpn.value(), 16).ptr;
  return "qp 0x" + std::string{hex.data(), end};
}

}  // namespace

Status Rnic::modify_qp(QueuePair& qp, const QpAttributes& to, unsigned mask) try {
  const QpState from = qp.state.load();
  if (auto legal = check_transition(qp.type, from, to, mask); !legal) {
    return Error{legal.error().code, qp_text(qp) + ": " + legal.error().message};
  }
  if ((mask & Attr::kMaxRdAtomic) != 0 && to.max_rd_atomic > Limits::kMaxRdAtomic) {
    return over_limit("max_rd_atomic", to.max_rd_atomic, Limits::kMaxRdAtomic);
  }
  if ((mask & Attr::kMaxDestRdAtomic) != 0 && to.max_dest_rd_atomic > Limits::kMaxRdAtomic) {
    return over_limit("max_dest_rd_atomic", to.max_dest_rd_atomic, Limits::kMaxRdAtomic);
  }
  if ((mask & Attr::kState) != 0 && to.state == QpState::reset) {
    reset(qp);
    return Ok{};
  }
  apply(qp.attributes, to, mask);
  if ((mask & Attr::kState) == 0) return Ok{};

  switch (to.state) {
    case QpState::error:
      drop_answers(qp.responder);
      enter_error(services_, qp);
      return Ok{};
    case QpState::rtr:
      if (from != QpState::rtr) begin(qp.responder, qp.attributes.rq_psn);
      break;
    case QpState::rts:
      if (from != QpState::rtr) break;  // back from SQD or SQE
      begin(qp.requester, qp.attributes.sq_psn);
      begin(qp.completer, qp.attributes);
      break;
    default:
      break;
  }
  change_state(services_, qp, to.state);
  schedule(qp);
  set_timer(qp);
  finish_draining(qp);
  return Ok{};
} catch (const std::bad_alloc&) {
  return no_memory();
}

void Rnic::reset(QueuePair& qp) {
  // What needs memory, first.
  Requester requester{};
  Completer completer{};
  Responder responder{};
  change_state(services_, qp, QpState::reset);
  services_.paces.forget(qp, runnable_);
  qp.sq.clear();
  qp.rq.clear();
  qp.attributes = {};
  qp.requester = std::move(requester);
  forget_requests(qp);
  qp.completer = completer;
  qp.responder = std::move(responder);
}

}  // namespace verbena::engine
