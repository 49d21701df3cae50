// What arrives: each datagram finds its queue pair, and there its handler.

#include "engine/marks.h"
#include "engine/raw_packet.h"
#include "engine/responder_execution.h"
#include "engine/rnic.h"
#include "engine/unreliable.h"

namespace verbena::engine {

void Rnic::receive(const packet::Datagram& datagram, Instant now) {
  services_.now = now;
  demultiplex(datagram, now);
  if (!datagram.more) finish_copies();
}

void Rnic::finish_copies() {
  Copies& copies = services_.copies;
  if (!copies.waiting() || copies.finish()) return;
  QueuePair& qp = *copies.owner();
  if (qp.state.load(std::memory_order_relaxed) == QpState::error) return;
  copies.response() ? fail_unplaced_response(services_, qp) : refuse_unplaced(services_, qp);
  schedule(qp);
  set_timer(qp);
}

void Rnic::demultiplex(const packet::Datagram& datagram, Instant now) {
  Counters& counters = services_.counters;
  const auto parsed = packet::parse(datagram.bytes);
  const auto* p = std::get_if<packet::Packet>(&parsed);
  if (p == nullptr) {
    ++counters.drop_malformed;
    return;
  }
  if (datagram.destination_qpn.value() == Qpn::kMask) {
    dispatch_multicast(datagram, *p, now);
    return;
  }
  QueuePair* qp = qps_.find(datagram.destination_qpn);
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

bool Rnic::admit(QueuePair& qp, const packet::Datagram& datagram, const packet::Packet& p) {
  Counters& counters = qp.counters;
  const packet::OpcodeInfo& info = p.info();
  if (qp.type == QpType::raw_packet) {
    ++counters.drop_service;
    return false;
  }
  // Congestion notices and marks are of no service.
  const bool of_any = info.kind == packet::Kind::cnp || (info.is_mark() && !qp.reliable());
  if (!of_any && info.service != qp.service()) {
    ++counters.drop_service;
    return false;
  }
  if ((p.bth.pkey & 0x7fff) != (packet::kDefaultPkey & 0x7fff)) {
    ++counters.drop_pkey;
    return false;
  }
  const QpState state = qp.state.load(std::memory_order_relaxed);
  const bool wanted = info.is_request() || info.kind == packet::Kind::mark
                          ? takes_requests(state) && qp.type != QpType::xrc_send
                          : takes_responses(state);
  if (!wanted) {
    ++counters.drop_state;
    return false;
  }
  if (qp.type != QpType::ud && (datagram.source != qp.attributes.flow.destination ||
                                datagram.destination != qp.attributes.flow.source)) {
    ++counters.drop_source;
    return false;
  }
  if (info.is_request() && !make_room(services_, qp, p)) {
    ++counters.drop_no_memory;
    return false;
  }
  ++counters.rcvd_pkts;
  return true;
}

void Rnic::dispatch(QueuePair& qp, const packet::Datagram& datagram, const packet::Packet& p,
                    Instant now) {
  const packet::OpcodeInfo& info = p.info();
  let_copies_wait(qp, datagram, info);
  if (!admit(qp, datagram, p)) return;
  if (services_.observer != nullptr) services_.observer->received(qp, p);
  const bool cnp = info.kind == packet::Kind::cnp;
  constexpr std::uint8_t kCongestionExperienced = 3;  // RFC 3168
  if (!cnp && qp.type != QpType::ud && (datagram.traffic_class & 3) == kCongestionExperienced) {
    note_congestion(qp.responder, now);
  }
  if (cnp) {
    ++qp.counters.rcvd_cnps;
    slow_down(qp);
  } else if (info.is_response()) {
    handle_response(services_, qp, p, now);
  } else if (info.kind == packet::Kind::mark) {
    handle_mark(qp, datagram, p);
  } else if (info.kind == packet::Kind::mark_reached) {
    const Receiver from{datagram.source, p.deth.source};
    if (!services_.paces.reached(from, qp.qpn, p.bth.psn, p.deth.qkey, runnable_)) {
      ++qp.counters.drop_response;
    }
  } else {
    serve_request(qp, datagram, p);
  }
  finish_draining(qp);
  schedule(qp);
  set_timer(qp);
}

void Rnic::serve_request(QueuePair& qp, const packet::Datagram& datagram, const packet::Packet& p) {
  const QpState state = qp.state.load(std::memory_order_relaxed);
  if (state == QpState::rtr && qp.type != QpType::ud && note_heard(qp.responder)) {
    services_.raise({.kind = EventKind::communication_established, .qp = &qp});
  }
  if (qp.type == QpType::ud) {
    handle_datagram(services_, qp, datagram, p);
  } else if (qp.type == QpType::uc) {
    handle_unreliable(services_, qp, p);
  } else {
    handle_request(services_, qp, p);
  }
}

void Rnic::receive_frame(QueuePair& qp, std::span<const std::uint8_t> frame, Instant now) {
  services_.now = now;
  finish_copies();
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
  if (!continues) finish_copies();
  if (places && datagram.more && !info.last) {
    copies.let_wait(qp, response);
  } else {
    copies.hurry();
  }
}

}  // namespace verbena::engine
