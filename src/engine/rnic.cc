#include "engine/rnic.h"

#include <algorithm>
#include <utility>

#include "engine/queue_pair_timers.h"
#include "engine/raw_packet.h"
#include "engine/responder_transmit.h"

namespace verbena::engine {

namespace {

/// Packets that one queue pair may send before the next has its turn: one full batch.
constexpr unsigned kTurn = 64;
/// Packets of one work(): the caller wants to look at the wire in between.
constexpr unsigned kTurnsOfWork = 8;
/// While others send, stalled queue pairs try again after this time.
constexpr Duration kStallPause = std::chrono::microseconds{50};

}  // namespace

Rnic::Rnic(std::uint32_t slot, memory::Dma& program, Entropy& entropy)
    : slot_{slot},
      program_memory_{program},
      services_{.keys = keys_,
                .copies = Copies{},
                .srqs = srqs_,
                .counters = {},
                .notifications = {},
                .moderated = {},
                .events = {},
                .segments = {},
                .observer = nullptr},
      entropy_{entropy} {
  services_.segments.reserve(Limits::kMaxSge);
}

Rnic::~Rnic() = default;

// ---- the program's data path

namespace {

/// IBA 11.4.1.1: whether a queue pair takes requests to send, and those of that kind.
PostResult check_send(const QueuePair& qp, SendKind of) {
  if (qp.state.load(std::memory_order_relaxed) < QpState::rts) return PostResult::bad_state;
  const SendKindInfo& kind = info_of(of);
  const bool served = (qp.type == QpType::uc && kind.uc) || (qp.type == QpType::ud && kind.ud) ||
                      qp.type == QpType::rc || qp.type == QpType::xrc_send ||
                      (qp.type == QpType::raw_packet && of == SendKind::send);
  return served ? PostResult::posted : PostResult::unsupported;
}

}  // namespace

PostResult Rnic::post_send(QueuePair& qp, const SendRequest& request) {
  PostResult result = check_send(qp, request.kind);
  if (result == PostResult::posted) result = qp.sq.post(request, qp.signal_all);
  if (result == PostResult::posted) doorbells_.ring(qp);
  return result;
}

PostResult Rnic::stage_send(QueuePair& qp, const SendRequest& request, std::uint32_t staged) {
  const PostResult result = check_send(qp, request.kind);
  return result == PostResult::posted ? qp.sq.stage(request, qp.signal_all, staged) : result;
}

PostResult Rnic::publish_sends(QueuePair& qp, std::uint32_t staged) {
  if (qp.state.load(std::memory_order_relaxed) < QpState::rts) return PostResult::bad_state;
  qp.sq.publish(staged);
  doorbells_.ring(qp);
  return PostResult::posted;
}

PostResult Rnic::post_receive(QueuePair& qp, const ReceiveRequest& request) {
  if (qp.srq != nullptr) return PostResult::bad_request;
  if (qp.state.load(std::memory_order_relaxed) == QpState::reset) return PostResult::bad_state;
  const PostResult result = qp.rq.post(request);
  // The responder finds it when it needs it; only in ERR somebody has to flush it.
  if (result == PostResult::posted && qp.state.load() == QpState::error) doorbells_.ring(qp);
  return result;
}

// ---- the wire's data path: receiving is in rnic_receive.cc

void Rnic::finish_draining(QueuePair& qp) {
  if (qp.state.load(std::memory_order_relaxed) != QpState::sqd || !qp.attributes.notify_drained ||
      !drained(qp)) {
    return;
  }
  qp.attributes.notify_drained = false;
  services_.raise({.kind = EventKind::sq_drained, .qp = &qp});
}

void Rnic::ring_doorbells() {
  for (QueuePair* qp = doorbells_.take_all(); qp != nullptr;) {
    QueuePair* next = qp->doorbell.next;
    // From here on a new post rings again, so look at the queue only after this.
    qp->doorbell.rung.exchange(false, std::memory_order_acq_rel);
    const QpState state = qp->state.load();
    if (state == QpState::error || state == QpState::sqe) {
      flush(services_, *qp);
    } else {
      schedule(*qp);
    }
    qp = next;
  }
}

void Rnic::schedule(QueuePair& qp) { runnable_.push(qp); }

void Rnic::set_timer(QueuePair& qp) {
  const Instant when = engine::next_deadline(qp);
  if (when >= timers_.of(qp)) return;  // what is set comes first and looks again
  timers_.set(qp, when);
}

void Rnic::expire_timers(const packet::FrameSink& sink, Instant now) {
  while (timers_.first() <= now) {
    QueuePair& qp = timers_.pop();
    if (engine::next_deadline(qp) <= now) {
      expire(services_, qp, sink, now);
      schedule(qp);
    }
    set_timer(qp);
  }
}

Counters Rnic::counters() const {
  Counters sum = services_.counters;
  qps_.for_each([&](const QueuePair& qp) { sum += qp.counters; });
  return sum;
}

Instant Rnic::next_deadline() const {
  Instant first = std::min(timers_.first(), services_.paces.deadline());
  for (const CompletionQueue* cq : services_.moderated) first = std::min(first, cq->due());
  return first;
}

void Rnic::forget(const CompletionQueue& cq) { std::erase(services_.moderated, &cq); }

Sent Rnic::transmit(QueuePair& qp, packet::FrameSink& sink, Instant now) {
  if (qp.type == QpType::raw_packet) return transmit_frames(services_, qp, ethernet_, kTurn);
  // A short message goes before the acknowledgement of the one that it answers: somebody waits.
  const Psn before = qp.requester.end;
  const bool first = before == qp.completer.unacked;
  const auto requests = [&](unsigned budget) {
    return has_requests(qp) ? transmit_requests(services_, qp, sink, budget, now) : Sent::all;
  };
  if (first && has_requests(qp)) sink.hurry();
  Sent sent = requests(1);
  const bool answers = has_responses(qp.responder);
  if (qp.requester.end != before) {
    if (first && answers) sink.hurry();
    note_request_sent(qp.responder, now);
  }
  if (sent != Sent::stalled) {
    sent = answers ? transmit_responses(services_, qp, sink, kTurn) : Sent::all;
  }
  if (sent == Sent::all) sent = requests(kTurn);
  if (qp.requester.end != before && goes_by_rings(qp)) {
    if (first || qp.completer.peer.awaits_place()) {
      qp.completer.peer.sent(passage_to_peer(qp, sink), first, now);
    }
  }
  return sent;
}

void Rnic::send_delayed_acks() {
  qps_.for_each([this](QueuePair& qp) {
    if (!qp.responder.answer) return;
    acknowledge_now(qp.responder);
    schedule(qp);
  });
}

void Rnic::retry_stalled(Instant now) {
  if (stalled_.empty() || (!runnable_.empty() && now < retry_stalled_at_)) return;
  runnable_.append(stalled_);
}

bool Rnic::work(packet::FrameSink& sink, Instant now) {
  services_.now = now;
  ring_doorbells();
  expire_timers(sink, now);
  services_.paces.expire(now, runnable_);
  services_.expire_moderated();
  retry_stalled(now);
  for (unsigned turn = 0; turn < kTurnsOfWork && !runnable_.empty();) {
    QueuePair& qp = runnable_.front();
    const Sent sent = transmit(qp, sink, now);
    finish_draining(qp);  // UC and UD are done with a message when they have sent it
    set_timer(qp);
    // Raw frames have a sink of their own.
    const bool by_sink = sent == Sent::stalled && qp.type != QpType::raw_packet;
    if (by_sink && sink.full()) return false;
    runnable_.pop();
    if (sent == Sent::stalled) {  // in nobody else's way, and it costs nobody else's turn
      stalled_.push(qp);
      retry_stalled_at_ = now + kStallPause;
      continue;
    }
    if (sent == Sent::more) schedule(qp);
    ++turn;
  }
  return !runnable_.empty() || stalled_.empty();
}

}  // namespace verbena::engine
