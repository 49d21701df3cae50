#include "engine/requester.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "base/bytes.h"
#include "engine/frames_ahead.h"
#include "engine/packets_again.h"
#include "engine/queue_pair.h"
#include "engine/scatter_gather.h"
#include "engine/window_binding.h"
#include "packet/packet.h"

namespace verbena::engine {

namespace {

using packet::Kind;

packet::Flow flow_of(const QueuePair& qp, const SendWqe& wqe) {
  packet::Flow flow = qp.type == QpType::ud ? wqe.request.destination().flow : qp.attributes.flow;
  flow.way = qp.requester.course.way;
  return flow;
}

Qpn destination_of(const QueuePair& qp, const SendWqe& wqe) {
  return qp.type == QpType::ud ? wqe.request.destination().qpn : qp.attributes.dest_qpn;
}

Receiver receiver_of(const QueuePair& qp, const SendWqe& wqe) {
  return {flow_of(qp, wqe), destination_of(qp, wqe)};
}

/// A way can change only while no packet is on it: what is sent the new way would overtake it. UC
/// and UD don't know; they keep to one for a message.
void choose_way(Services& services, QueuePair& qp, packet::FrameSink& sink, const SendWqe& wqe) {
  Requester& r = qp.requester;
  if (qp.reliable() ? qp.completer.window.in_flight() != 0 : r.packet != 0) return;
  const packet::Course course = sink.choose_way(flow_of(qp, wqe), destination_of(qp, wqe));
  if (course == r.course) return;
  // A peer that was on this host and no longer is has died: the network won't find it, either.
  const bool died =
      r.course.way == packet::Way::host && course.detour == packet::Detour::other_host;
  if (died && qp.connected()) return;
  const packet::Course before = std::exchange(r.course, course);
  if (course.way != before.way) change_way(qp.completer, qp.attributes, course.way);
  // A datagram queue pair has many peers: the way is the datagram's.
  if (services.observer != nullptr && qp.connected()) services.observer->chose_way(qp, course);
}

/// Packets of a service that isn't acknowledged wait for their receiver. A way that loses nothing
/// holds the sender back itself; members of a group would all answer.
bool is_paced(const QueuePair& qp, const Receiver& to) {
  return qp.requester.course.way == packet::Way::network && !to.address.is_multicast();
}

/// May the next packet of the request leave?
bool window_open(Services& services, QueuePair& qp, const SendWqe& wqe, Instant now) {
  if (!qp.reliable()) {
    const Receiver to = receiver_of(qp, wqe);
    return !is_paced(qp, to) || services.paces.lets(qp, to, packet_cost(qp, wqe), now);
  }
  return qp.completer.window.fits(packet_cost(qp, wqe));
}

/// IBA 9.7.7.2.5: without a credit, a message may send one packet, and go on when that is
/// acknowledged: then the peer has a receive for it.
bool credit_forbids(const QueuePair& qp, const SendWqe& wqe) {
  const Completer& c = qp.completer;
  if (!wqe.info().takes_receive() || c.credits.covers(wqe.receive)) return false;
  if (qp.requester.packet == 0) return !c.credits.may_probe(wqe.receive);
  return distance(c.unacked, wqe.first_psn) <= 0;
}

/// Takes the request at the cursor up. False: it has to wait.
bool start(QueuePair& qp, SendWqe& wqe) {
  Requester& r = qp.requester;
  // IBA 10.8.3.3: a fenced request waits for the READs and atomics before it.
  if (wqe.request.fence && !r.answered.empty()) return false;
  // IBA 10.3.1.5: a draining queue begins nothing new.
  if (qp.state.load(std::memory_order_relaxed) == QpState::sqd) return false;
  wqe.started = true;
  wqe.first_psn = r.psn;
  wqe.packets = wqe.info().packet == Kind::none ? 0
                : wqe.info().answered && wqe.request.kind != SendKind::read
                    ? 1
                    : packets_of(wqe.length, qp.attributes.path_mtu);
  return true;
}

void advance(QueuePair& qp, const SendWqe& wqe, std::uint32_t packets) {
  Requester& r = qp.requester;
  r.psn = r.psn + packets;
  r.packet += packets;
  if (distance(r.psn, r.end) > 0) r.end = r.psn;
  if (r.packet == wqe.packets) {
    ++r.wqe;
    r.packet = 0;
  }
}

enum class RequestStep : std::uint8_t { sent, wait, stalled };

RequestStep fault(QueuePair& qp, CompletionStatus status) {
  qp.requester.fault = status;
  return RequestStep::wait;
}

/// The BTH that all packets of a request have, and the headers that an opcode may want.
packet::Opcode opcode_of(const QueuePair& qp, const SendWqe& wqe, packet::Part part) {
  const auto trailer = part.last ? wqe.info().trailer : packet::Trailer::none;
  return *packet::opcode_for(qp.service(), wqe.info().packet, part, trailer);
}

packet::Packet make_packet(const QueuePair& qp, const SendWqe& wqe, packet::Part part) {
  const PostedSend& request = wqe.request;
  packet::Packet p;
  p.bth.opcode = opcode_of(qp, wqe, part);
  p.bth.destination = destination_of(qp, wqe);
  p.bth.psn = qp.requester.psn;
  p.reth = {request.remote_address, request.rkey, wqe.length};
  p.immediate = request.immediate;
  p.ieth = {request.invalidate};
  p.xrceth = {request.xrc_srq};
  return p;
}

/// The payload of the packet at the cursor into `into`. False: memory or key is no good.
bool fill(Services& services, QueuePair& qp, const SendWqe& wqe, std::uint32_t offset,
          std::span<std::uint8_t> into) {
  if (into.empty()) return true;
  if (wqe.request.inlined) {
    const auto bytes = qp.sq.inline_bytes(qp.requester.wqe).subspan(offset, into.size());
    copy_without_call(into.data(), bytes.data(), bytes.size());
    return true;
  }
  return resolve(services.keys, qp.pd, qp.sq.sges(qp.requester.wqe), offset,
                 static_cast<std::uint32_t>(into.size()), 0, services.segments) &&
         services.copies.gather(services.segments, into);
}

/// Headers, `length` bytes of payload from `offset`, pad; and off. `filled`: a frame that has its
/// payload.
RequestStep emit(Services& services, QueuePair& qp, packet::FrameSink& sink, const SendWqe& wqe,
                 packet::Packet& p, std::uint32_t offset, std::uint32_t length,
                 std::span<std::uint8_t> filled = {}) {
  const bool again = qp.reliable() && distance(qp.requester.end, p.bth.psn) > 0;
  p.bth.pad = packet::pad_of(length);
  const std::size_t headers = packet::header_size(p.bth.opcode);
  std::span<std::uint8_t> out = filled;
  if (out.empty()) {
    out =
        sink.reserve(flow_of(qp, wqe), p.bth.destination, packet::frame_size(p.bth.opcode, length));
    if (out.empty()) return RequestStep::stalled;
    if (!fill(services, qp, wqe, offset, out.subspan(headers, length))) {
      return fault(qp, CompletionStatus::local_protection_error);  // the room is not committed
    }
  }
  packet::encode_headers(p, out);
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(headers + length), out.end(),
            std::uint8_t{0});
  sink.commit();
  note_frame(services, qp, flow_of(qp, wqe), p, length, again);
  return RequestStep::sent;
}

/// For one request more that is answered. False: there is no memory.
bool make_room(Requester& r) try {
  r.answered.make_room();
  if (r.asked.size() == r.asked.capacity()) r.asked.reserve(2 * r.asked.size() + 1);
  if (r.pieces.size() == r.pieces.capacity()) r.pieces.reserve(2 * r.pieces.size() + 1);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

/// Behind a packet of a service that isn't acknowledged. Without room in the sink, the next packet
/// tries again.
void send_mark(Services& services, QueuePair& qp, packet::FrameSink& sink, const SendWqe& wqe,
               const packet::Packet& behind, Instant now) {
  packet::Packet p;
  p.bth.opcode = packet::Opcode::mark;
  p.bth.destination = behind.bth.destination;
  p.bth.psn = behind.bth.psn;
  p.deth = {behind.deth.qkey, qp.qpn};
  const auto out =
      sink.reserve(flow_of(qp, wqe), p.bth.destination, packet::frame_size(p.bth.opcode, 0));
  if (out.empty()) return;
  packet::encode_headers(p, out);
  sink.commit();
  ++qp.counters.sent_marks;
  if (services.observer != nullptr) services.observer->sent(qp, flow_of(qp, wqe), p, 0, false);
  services.paces.mark_sent(receiver_of(qp, wqe), qp.qpn, p.bth.psn, now);
}

/// READ, atomics, FLUSH, ATOMIC_WRITE. A long READ is asked for in pieces of a window's size:
/// nothing acknowledges a response, so what is asked for is what may fill our receive buffer.
RequestStep send_answered(Services& services, QueuePair& qp, packet::FrameSink& sink, SendWqe& wqe,
                          Instant now) {
  Requester& r = qp.requester;
  const QpAttributes& a = qp.attributes;
  const PostedSend& request = wqe.request;
  if (a.max_rd_atomic == 0) return fault(qp, CompletionStatus::local_qp_error);
  if (r.answered.size() >= a.max_rd_atomic) return RequestStep::wait;
  const std::uint32_t left = wqe.packets - r.packet;
  const std::uint32_t cost = packet_cost(qp, wqe);
  std::uint32_t piece = std::min(left, qp.completer.window.room(cost));
  // Pieces that are too small waste a round trip each.
  if (piece < left && piece * cost < qp.completer.window.limit() / 4) return RequestStep::wait;
  const bool again = distance(r.end, r.psn) > 0;
  if (again) piece = packets_again(qp, piece);
  if (piece == 0) return RequestStep::wait;

  packet::Packet p = make_packet(qp, wqe, {.first = true, .last = true});
  p.bth.ack_request = true;
  const std::uint32_t offset = r.packet * a.path_mtu;
  std::uint32_t payload = 0;
  if (request.kind == SendKind::flush) {
    p.feth = request.flush().what;
    p.reth.length = request.flush().length;
  } else if (request.kind == SendKind::atomic_write) {
    payload = wqe.length;
  } else {
    const std::uint32_t length =
        request.kind == SendKind::read ? std::min(piece * a.path_mtu, wqe.length - offset) : 8;
    p.reth.address += offset;
    p.reth.length = length;
    if (request.kind != SendKind::read) {
      p.atomic_eth = {request.remote_address, request.rkey, request.atomic().swap_or_add,
                      request.atomic().compare};
    }
    // Where the answer will go must be good before it is asked for.
    if (!resolve(services.keys, qp.pd, qp.sq.sges(r.wqe), offset, length, Access::kLocalWrite,
                 services.segments)) {
      return fault(qp, CompletionStatus::local_protection_error);
    }
  }
  if (!make_room(r)) return RequestStep::stalled;  // as good as: it is tried again
  const RequestStep step = emit(services, qp, sink, wqe, p, 0, payload);
  if (step != RequestStep::sent) return step;
  r.answered.push_back(r.psn + (piece - 1));
  if (!again) {
    r.asked.push_back(r.answered.back());
  } else if (std::find(r.pieces.begin(), r.pieces.end(), r.answered.back()) == r.pieces.end()) {
    r.pieces.push_back(r.answered.back());
  }
  r.since_ack_request = 0;
  note_sent(qp, wqe, piece, now);
  advance(qp, wqe, piece);
  return RequestStep::sent;
}

/// Packets from the cursor on that differ in nothing but their bytes: the first may have a RETH,
/// the last immediate data or a shorter payload.
std::uint32_t packets_alike(const QueuePair& qp, const SendWqe& wqe) {
  const auto headers = [&](packet::Part part) {
    return packet::header_size(opcode_of(qp, wqe, part));
  };
  const std::uint32_t left = wqe.packets - qp.requester.packet;
  const std::size_t middle = headers({});
  if (qp.requester.packet == 0 && headers({.first = true}) != middle) return 1;
  const bool last_too =
      wqe.length % qp.attributes.path_mtu == 0 && headers({.last = true}) == middle;
  return last_too ? left : left - 1;
}

/// Fills the packet at the cursor and those behind it, as far as they are alike and may leave now.
void look_ahead(Services& services, QueuePair& qp, packet::FrameSink& sink, const SendWqe& wqe,
                packet::Opcode opcode, unsigned budget, FramesAhead& ahead) {
  const Requester& r = qp.requester;
  if (wqe.request.inlined) return;
  const std::uint32_t mtu = qp.attributes.path_mtu;
  const std::uint32_t alike =
      std::min(packets_alike(qp, wqe), qp.completer.window.room(packet_cost(qp, wqe)));
  if (std::min(alike, budget) < 2 || !resolve(services.keys, qp.pd, qp.sq.sges(r.wqe),
                                              r.packet * mtu, alike * mtu, 0, services.segments)) {
    return;
  }
  const Segment& first = services.segments.front();
  const std::uint32_t count =
      std::min(static_cast<std::uint32_t>(first.length / mtu), FramesAhead::most(first, budget));
  if (count < 2) return;  // one by one
  ahead.fill(sink, flow_of(qp, wqe), destination_of(qp, wqe), packet::header_size(opcode), mtu,
             first, count);
}

/// One packet of a SEND or WRITE; `budget` more may follow.
RequestStep send_data(Services& services, QueuePair& qp, packet::FrameSink& sink, SendWqe& wqe,
                      Instant now, unsigned budget, FramesAhead& ahead) {
  Requester& r = qp.requester;
  const QpAttributes& a = qp.attributes;
  if (qp.type == QpType::ud && wqe.packets > 1) {
    return fault(qp, CompletionStatus::local_length_error);  // C9-171: one packet, one message
  }
  const std::uint32_t offset = r.packet * a.path_mtu;
  const std::uint32_t length = std::min<std::uint32_t>(a.path_mtu, wqe.length - offset);
  const packet::Part part{.first = r.packet == 0, .last = r.packet + 1 == wqe.packets};

  packet::Packet p = make_packet(qp, wqe, part);
  p.bth.solicited = wqe.request.solicited && part.last;
  const std::uint32_t cost = packet_cost(qp, wqe);
  const bool probe =
      qp.reliable() && wqe.info().takes_receive() && !qp.completer.credits.covers(wqe.receive);
  if (qp.reliable()) {
    const Window& window = qp.completer.window;
    p.bth.ack_request = part.last || probe || window.closes_after(cost) ||
                        r.since_ack_request + cost >= window.limit() / 4;
  }
  if (qp.type == QpType::ud) {
    const std::uint32_t qkey = wqe.request.destination().qkey;
    p.deth = {(qkey & 0x8000'0000u) != 0 ? a.qkey : qkey, qp.qpn};
  }
  if (ahead.empty() && !part.last && qp.reliable() && !probe) {
    look_ahead(services, qp, sink, wqe, p.bth.opcode, budget, ahead);
  }
  const RequestStep step = emit(services, qp, sink, wqe, p, offset, length, ahead.take());
  if (step != RequestStep::sent) return step;
  r.since_ack_request = p.bth.ack_request ? 0 : r.since_ack_request + cost;
  if (qp.reliable()) {
    note_sent(qp, wqe, 1, now);
    advance(qp, wqe, 1);
    return RequestStep::sent;
  }
  const Receiver to = receiver_of(qp, wqe);
  if (is_paced(qp, to) && services.paces.sent(to, cost, now)) {
    send_mark(services, qp, sink, wqe, p, now);
  }
  advance(qp, wqe, 1);
  note_gone(services, qp);
  return RequestStep::sent;
}

/// Binding and invalidating: in order with the other requests, but without the peer.
RequestStep do_locally(Services& services, QueuePair& qp, SendWqe& wqe) {
  if (!wqe.done) {  // it is, when the cursor went back over it
    const CompletionStatus status = wqe.request.kind == SendKind::bind_window
                                        ? bind_window(services, qp, wqe.request.binding())
                                        : invalidate_locally(services, qp, wqe.request.invalidate);
    if (status != CompletionStatus::success) return fault(qp, status);
    wqe.done = true;
  }
  advance(qp, wqe, 0);
  note_gone(services, qp);
  return RequestStep::sent;
}

}  // namespace

bool has_requests(const QueuePair& qp) { return qp.requester.wqe != qp.sq.tail(); }

Sent transmit_requests(Services& services, QueuePair& qp, packet::FrameSink& sink, unsigned budget,
                       Instant now) {
  Requester& r = qp.requester;
  const QpState state = qp.state.load(std::memory_order_relaxed);
  if ((state != QpState::rts && state != QpState::sqd) || is_waiting(r, now)) return Sent::all;

  FramesAhead ahead;
  for (unsigned sent = 0; r.wqe != qp.sq.tail(); ++sent) {
    if (r.fault) {
      // Requests before the faulty one complete first. What has left of the faulty one may never be
      // acknowledged: nothing has asked for it.
      if (qp.sq.head() == r.wqe) fail_send(services, qp, *r.fault);
      return Sent::all;
    }
    SendWqe& wqe = qp.sq.at(r.wqe);
    choose_way(services, qp, sink, wqe);
    if (!window_open(services, qp, wqe, now)) return Sent::all;
    if (sent >= budget && ahead.empty()) return Sent::more;

    if (credit_forbids(qp, wqe)) return Sent::all;
    const bool begins = !wqe.started;
    if (begins && !start(qp, wqe)) return Sent::all;
    const RequestStep step =
        wqe.packets == 0 ? do_locally(services, qp, wqe)
        : wqe.info().answered
            ? send_answered(services, qp, sink, wqe, now)
            : send_data(services, qp, sink, wqe, now, budget - std::min(sent, budget), ahead);
    // Nothing of it has left: a queue that drains meanwhile has not begun it.
    if (begins && step != RequestStep::sent) wqe.started = false;
    if (step == RequestStep::stalled) {
      if (goes_by_rings(qp)) note_held_back(qp, passage_to_peer(qp, sink), now);
      return Sent::stalled;
    }
    if (step == RequestStep::wait && !r.fault) return Sent::all;
  }
  return Sent::all;
}

void move_cursor(QueuePair& qp, Psn psn) {
  Requester& r = qp.requester;
  r.wqe = qp.sq.head();
  while (r.wqe != qp.sq.tail()) {
    const SendWqe& wqe = qp.sq.at(r.wqe);
    const bool behind = wqe.packets == 0 ? wqe.done : distance(psn, wqe.end_psn()) >= 0;
    if (!wqe.started || !behind) break;
    ++r.wqe;
  }
  const bool inside = r.wqe != qp.sq.tail() && qp.sq.at(r.wqe).started;
  r.packet = inside ? static_cast<std::uint32_t>(distance(psn, qp.sq.at(r.wqe).first_psn)) : 0;
  r.psn = psn;
  r.since_ack_request = 0;
  r.fault.reset();
  while (!r.answered.empty() && distance(r.answered.back(), psn) >= 0) r.answered.pop_back();
}

bool goes_by_rings(const QueuePair& qp) {
  return qp.reliable() && qp.requester.course.way == packet::Way::host;
}

packet::Passage passage_to_peer(const QueuePair& qp, const packet::FrameSink& sink) {
  packet::Flow flow = qp.attributes.flow;
  flow.way = qp.requester.course.way;
  return sink.passage(flow, qp.attributes.dest_qpn);
}

bool drained(const QueuePair& qp) {
  return qp.completer.unacked == qp.requester.end && qp.requester.packet == 0;
}

void note_acknowledged(Requester& r, Psn unacked) {
  std::erase_if(r.pieces, [&](Psn last) { return distance(last, unacked) < 0; });
  while (!r.answered.empty() && distance(r.answered.front(), unacked) < 0) r.answered.pop_front();
  r.asked.erase(r.asked.begin(), std::find_if(r.asked.begin(), r.asked.end(), [&](Psn last) {
                  return distance(last, unacked) >= 0;
                }));
}

void forget_requests(QueuePair& qp) {
  qp.requester.wqe = qp.sq.head();
  qp.requester.packet = 0;
  qp.requester.fault.reset();
}

}  // namespace verbena::engine
