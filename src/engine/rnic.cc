#include "engine/rnic.h"

#include <algorithm>
#include <utility>

#include "engine/raw_packet.h"
#include "engine/unreliable.h"

namespace verbena::engine {

namespace {

/// Packets that one queue pair may send before the next has its turn: one full batch.
constexpr unsigned kTurn = 64;
/// Packets of one work(): the caller wants to look at the wire in between.
constexpr unsigned kTurnsOfWork = 8;

}  // namespace

Rnic::Rnic(std::uint32_t slot, Dma& dma, Entropy& entropy)
    : slot_{slot},
      services_{.keys = keys_,
                .dma = dma,
                .copies = Copies{dma},
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

// ---- the wire's data path

void Rnic::receive(const packet::Datagram& datagram, Instant now) {
  services_.now = now;
  sort(datagram, now);
  if (!datagram.more) settle();
}

void Rnic::settle() {
  Copies& copies = services_.copies;
  if (!copies.waiting() || copies.finish()) return;
  QueuePair& qp = *copies.owner();
  if (qp.state.load(std::memory_order_relaxed) == QpState::error) return;
  copies.response() ? fail_unplaced_response(services_, qp) : refuse_unplaced(services_, qp);
  schedule(qp);
  set_timer(qp);
}

void Rnic::sort(const packet::Datagram& datagram, Instant now) {
  Counters& counters = services_.counters;
  const auto parsed = packet::parse(datagram.bytes);
  const auto* p = std::get_if<packet::Packet>(&parsed);
  if (p == nullptr) {
    ++counters.drop_malformed;
    return;
  }
  if (p->bth.destination.value() == Qpn::kMask) {
    dispatch_multicast(datagram, *p, now);
    return;
  }
  QueuePair* qp = qps_.find(p->bth.destination);
  if (qp == nullptr) {
    ++counters.drop_no_qp;
    return;
  }
  dispatch(*qp, datagram, *p, now);
}

void Rnic::dispatch_multicast(const packet::Datagram& datagram, const packet::Packet& p,
                              Instant now) {
  const auto group = multicast_.find(datagram.destination);
  if (group == multicast_.end()) {
    ++services_.counters.drop_no_qp;
    return;
  }
  for (QueuePair* qp : group->second) dispatch(*qp, datagram, p, now);
}

void Rnic::dispatch(QueuePair& qp, const packet::Datagram& datagram, const packet::Packet& p,
                    Instant now) {
  Counters& counters = qp.counters;
  const packet::OpcodeInfo& info = p.info();
  let_copies_wait(qp, datagram, info);
  if (qp.type == QpType::raw_packet) {
    ++counters.drop_service;
    return;
  }
  // C9-7 ff.: service, partition, state and source, before anything else looks at it.
  const bool cnp = info.kind == packet::Kind::cnp;
  const bool beside = cnp || (info.is_mark() && !qp.reliable());
  if (!beside && info.service != qp.service()) {
    ++counters.drop_service;
    return;
  }
  if ((p.bth.pkey & 0x7fff) != (packet::kDefaultPkey & 0x7fff)) {
    ++counters.drop_pkey;
    return;
  }
  const QpState state = qp.state.load(std::memory_order_relaxed);
  const bool wanted = info.is_request() || info.kind == packet::Kind::mark
                          ? takes_requests(state) && qp.type != QpType::xrc_send
                          : takes_responses(state);
  if (!wanted) {
    ++counters.drop_state;
    return;
  }
  if (qp.type != QpType::ud && (datagram.source != qp.attributes.flow.destination ||
                                datagram.destination != qp.attributes.flow.source)) {
    ++counters.drop_source;
    return;
  }
  if (info.is_request() && !make_room(services_, qp, p)) {
    ++counters.drop_no_memory;
    return;
  }
  ++counters.rcvd_pkts;
  if (services_.observer != nullptr) services_.observer->received(qp, p);
  constexpr std::uint8_t kCongestionExperienced = 3;  // RFC 3168
  if (!cnp && qp.type != QpType::ud && (datagram.traffic_class & 3) == kCongestionExperienced) {
    note_congestion(qp.responder, now);
  }
  if (cnp) {
    ++counters.rcvd_cnps;
    slow_down(qp);
  } else if (info.is_response()) {
    handle_response(services_, qp, p, now);
  } else if (info.kind == packet::Kind::mark) {
    handle_mark(qp, datagram, p);
  } else if (info.kind == packet::Kind::mark_reached) {
    const Receiver from{datagram.source, p.deth.source};
    if (!services_.paces.reached(from, qp.qpn, p.bth.psn, p.deth.qkey, runnable_)) {
      ++counters.drop_response;
    }
  } else {
    if (state == QpState::rtr && qp.type != QpType::ud &&
        !std::exchange(qp.responder.heard, true)) {
      services_.tell({.kind = EventKind::communication_established, .qp = &qp});
    }
    if (qp.type == QpType::ud) {
      handle_datagram(services_, qp, datagram, p);
    } else if (qp.type == QpType::uc) {
      handle_unreliable(services_, qp, p);
    } else {
      handle_request(services_, qp, p);
    }
  }
  finish_draining(qp);
  schedule(qp);
  set_timer(qp);
}

void Rnic::receive_frame(QueuePair& qp, std::span<const std::uint8_t> frame, Instant now) {
  services_.now = now;
  settle();
  services_.copies.hurry();
  handle_frame(services_, qp, frame);
  schedule(qp);
}

/// A packet of another message than the one whose copies wait finds them done.
void Rnic::let_copies_wait(QueuePair& qp, const packet::Datagram& datagram,
                           const packet::OpcodeInfo& info) {
  using packet::Kind;
  Copies& copies = services_.copies;
  const bool response = info.kind == Kind::read_response;
  const bool places =
      qp.reliable() && (response || info.kind == Kind::write || info.kind == Kind::send);
  const bool continues =
      places && !info.first && copies.owner() == &qp && copies.response() == response;
  if (!continues) settle();
  if (places && datagram.more && !info.last) {
    copies.let_wait(qp, response);
  } else {
    copies.hurry();
  }
}

void Rnic::finish_draining(QueuePair& qp) {
  if (qp.state.load(std::memory_order_relaxed) != QpState::sqd || !qp.attributes.notify_drained ||
      !drained(qp)) {
    return;
  }
  qp.attributes.notify_drained = false;
  services_.tell({.kind = EventKind::sq_drained, .qp = &qp});
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

void Rnic::expire_timers(Instant now) {
  while (timers_.first() <= now) {
    QueuePair& qp = timers_.pop();
    if (engine::next_deadline(qp) <= now) {
      expire(services_, qp, now);
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
  Sent sent = transmit_requests(services_, qp, sink, 1, now);
  if (qp.requester.end != before) answer_with_request(qp.responder, now);
  if (sent != Sent::sink_full) sent = transmit_responses(services_, qp, sink, kTurn);
  if (sent == Sent::all) sent = transmit_requests(services_, qp, sink, kTurn, now);
  return sent;
}

void Rnic::hurry_answers() {
  qps_.for_each([this](QueuePair& qp) {
    if (!qp.responder.answer) return;
    qp.responder.answer_by = Instant{};
    schedule(qp);
  });
}

bool Rnic::work(packet::FrameSink& sink, Instant now) {
  services_.now = now;
  ring_doorbells();
  expire_timers(now);
  services_.paces.expire(now, runnable_);
  services_.expire_moderated();
  bool interface_full = false;
  for (unsigned turn = 0; turn < kTurnsOfWork && !runnable_.empty(); ++turn) {
    QueuePair& qp = runnable_.front();
    const Sent sent = transmit(qp, sink, now);
    finish_draining(qp);  // UC and UD are done with a message when they have sent it
    set_timer(qp);
    // An interface that takes no raw frames now is in nobody else's way.
    const bool raw_waits = sent == Sent::sink_full && qp.type == QpType::raw_packet;
    interface_full = interface_full || raw_waits;
    if (sent == Sent::sink_full && !raw_waits) return false;
    runnable_.pop();
    if (sent == Sent::more || raw_waits) schedule(qp);
  }
  return !interface_full;
}

}  // namespace verbena::engine
