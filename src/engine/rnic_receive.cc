// What arrives: each datagram finds its queue pair, and there its handler.

#include "engine/marks.h"
#include "engine/raw_packet.h"
#include "engine/responder_execution.h"
#include "engine/responder_transmit.h"
#include "engine/rnic.h"
#include "engine/unreliable.h"

namespace verbena::engine {

namespace {

/// Rings tell which process has sent a frame; addresses are what it says.
bool is_from_another(const QueuePair& qp, const packet::Datagram& datagram) {
  return datagram.way == packet::Way::host && qp.connected() &&
         datagram.sender != qp.attributes.dest_qpn.slot();
}

/// A peer that has sent by rings, or is asked by rings, sends nothing by the network: frames from
/// there are old copies, or a stranger's. The way changes back only with rings_lost().
bool is_from_elsewhere(const QueuePair& qp, const packet::Datagram& datagram,
                       const packet::OpcodeInfo& info) {
  if (datagram.way == packet::Way::host || !qp.connected()) return false;
  const bool to_responder = info.is_request() || info.kind == packet::Kind::mark;
  return to_responder ? qp.responder.way_known && qp.responder.way == packet::Way::host
                      : qp.requester.course.way == packet::Way::host;
}

}  // namespace

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
  const auto parsed = datagram.changeable
                          ? packet::parse_changeable(datagram.bytes, datagram.destination_qpn)
                          : packet::parse(datagram.bytes, datagram.destination_qpn);
  const auto* p = std::get_if<packet::Packet>(&parsed);
  if (p == nullptr) {
    drop_unclaimed(&Counters::drop_malformed, {.bytes = datagram.bytes});
    return;
  }
  if (datagram.destination_qpn.value() == Qpn::kMask) {
    dispatch_multicast(datagram, *p, now);
    return;
  }
  QueuePair* qp = qps_.find(datagram.destination_qpn);
  if (qp == nullptr) {
    drop_unclaimed(&Counters::drop_no_qp, {.packet = p});
    return;
  }
  dispatch(*qp, datagram, *p, now);
}

void Rnic::drop_unclaimed(CounterField reason, DroppedFrame frame) {
  ++(services_.counters.*reason);
  if (services_.observer == nullptr) return;
  frame.reason = name_of(reason);
  services_.observer->dropped(frame);
}

void Rnic::dispatch_multicast(const packet::Datagram& datagram, const packet::Packet& p,
                              Instant now) {
  const auto group = multicast_.find(datagram.destination);
  if (group == multicast_.end()) {
    drop_unclaimed(&Counters::drop_no_qp, {.packet = &p});
    return;
  }
  for (QueuePair* qp : group->second) dispatch(*qp, datagram, p, now);
}

CounterField Rnic::reason_to_drop(QueuePair& qp, const packet::Datagram& datagram,
                                  const packet::Packet& p) {
  const packet::OpcodeInfo& info = p.info();
  if (qp.type == QpType::raw_packet) return &Counters::drop_service;
  // Congestion notices and marks are of no service.
  const bool of_any = info.kind == packet::Kind::cnp || (info.is_mark() && !qp.reliable());
  if (!of_any && info.service != qp.service()) return &Counters::drop_service;
  if ((p.bth.pkey & 0x7fff) != (packet::kDefaultPkey & 0x7fff)) return &Counters::drop_pkey;
  const QpState state = qp.state.load(std::memory_order_relaxed);
  const bool wanted = info.is_request() || info.kind == packet::Kind::mark
                          ? takes_requests(state) && qp.type != QpType::xrc_send
                          : takes_responses(state);
  if (!wanted) return &Counters::drop_state;
  if (qp.type != QpType::ud && (datagram.source != qp.attributes.flow.destination ||
                                datagram.destination != qp.attributes.flow.source)) {
    return &Counters::drop_source;
  }
  if (is_from_another(qp, datagram)) return &Counters::drop_source;
  if (is_from_elsewhere(qp, datagram, info)) return &Counters::drop_way;
  if (info.is_request() && !make_room(services_, qp, p)) return &Counters::drop_no_memory;
  return nullptr;
}

void Rnic::dispatch(QueuePair& qp, const packet::Datagram& datagram, const packet::Packet& p,
                    Instant now) {
  const packet::OpcodeInfo& info = p.info();
  let_copies_wait(qp, datagram, info);
  if (const CounterField reason = reason_to_drop(qp, datagram, p)) {
    drop(services_, qp, reason, p);
    return;
  }
  ++qp.counters.rcvd_pkts;
  qp.counters.rcvd_bytes += p.payload.size();
  if (services_.observer != nullptr) services_.observer->received(qp, datagram, p);
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
    handle_mark(services_, qp, datagram, p);
  } else if (info.kind == packet::Kind::mark_reached) {
    const Receiver from{datagram.source, p.deth.source};
    if (!services_.paces.reached(from, qp.qpn, p.bth.psn, p.deth.qkey, runnable_)) {
      drop(services_, qp, &Counters::drop_response, p);
    }
  } else {
    serve_request(qp, datagram, p);
  }
  finish_draining(qp);
  if (has_requests(qp) || responses_are_due(services_, qp)) schedule(qp);
  set_timer(qp);
}

void Rnic::serve_request(QueuePair& qp, const packet::Datagram& datagram, const packet::Packet& p) {
  if (answer_by(qp.responder, datagram.way) && services_.observer != nullptr && qp.connected()) {
    services_.observer->answers_by(qp, datagram.way);
  }
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

void Rnic::rings_lost(std::uint32_t slot, Instant now) {
  qps_.for_each([&](QueuePair& qp) {
    if (!qp.connected() || qp.attributes.dest_qpn.slot() != slot) return;
    forget_way(qp.responder);
    if (!ask_again(qp, now)) return;
    set_timer(qp);
  });
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
