#include "engine/requester.h"

#include <algorithm>
#include <utility>

#include "engine/queue_pair.h"
#include "packet/packet.h"

namespace verbena::engine {

namespace {

using packet::Opcode;

Opcode opcode_of(SendKind kind, bool first, bool last) {
  using enum Opcode;
  switch (kind) {
    case SendKind::send:
      return first ? (last ? rc_send_only : rc_send_first) : (last ? rc_send_last : rc_send_middle);
    case SendKind::send_immediate:
      return first ? (last ? rc_send_only_imm : rc_send_first)
                   : (last ? rc_send_last_imm : rc_send_middle);
    case SendKind::write:
      return first ? (last ? rc_write_only : rc_write_first)
                   : (last ? rc_write_last : rc_write_middle);
    case SendKind::write_immediate:
      return first ? (last ? rc_write_only_imm : rc_write_first)
                   : (last ? rc_write_last_imm : rc_write_middle);
    case SendKind::read:
      return rc_read_request;
  }
  __builtin_unreachable();
}

/// Takes the request at the cursor up. False: it has to wait.
bool start(QueuePair& qp, SendWqe& wqe) {
  Requester& r = qp.requester;
  // IBA 10.8.3.3: a fenced request waits for the READs before it.
  if (wqe.fence && !r.reads.empty()) return false;
  wqe.started = true;
  wqe.first_psn = r.psn;
  wqe.packets = packets_of(wqe.length, qp.attributes.path_mtu);
  return true;
}

/// Packets that the window has room for.
std::uint32_t room(const QueuePair& qp) {
  const auto in_flight =
      static_cast<std::uint32_t>(distance(qp.requester.psn, qp.completer.unacked));
  const std::uint32_t window = qp.completer.window.packets();
  return in_flight < window ? window - in_flight : 0;
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

enum class Step : std::uint8_t { sent, wait, sink_full };

/// One READ request. A long READ is asked for in pieces of a window's size: nothing
/// acknowledges a response, so what is asked for is what may fill our receive buffer.
Step send_read(Services& services, QueuePair& qp, packet::FrameSink& sink, SendWqe& wqe,
               Instant now) {
  Requester& r = qp.requester;
  const QpAttributes& a = qp.attributes;
  if (a.max_rd_atomic == 0) {
    r.fault = CompletionStatus::local_qp_error;
    return Step::wait;
  }
  if (r.reads.size() >= a.max_rd_atomic) return Step::wait;
  const std::uint32_t left = wqe.packets - r.packet;
  const std::uint32_t window = qp.completer.window.packets();
  const std::uint32_t piece = std::min(left, room(qp));
  // Pieces that are too small waste a round trip each.
  if (piece < left && piece < std::max(window / 4, 1u)) return Step::wait;

  const std::uint32_t offset = r.packet * a.path_mtu;
  const std::uint32_t length = std::min(piece * a.path_mtu, wqe.length - offset);
  if (!resolve(services.keys, qp.pd, qp.sq.sges(r.wqe), offset, length, Access::kLocalWrite,
               services.segments)) {
    r.fault = CompletionStatus::local_protection_error;
    return Step::wait;
  }

  packet::Packet p;
  p.bth.opcode = Opcode::rc_read_request;
  p.bth.destination = a.dest_qpn;
  p.bth.psn = r.psn;
  p.bth.ack_request = true;
  p.reth = {wqe.remote_address + offset, wqe.rkey, length};
  const auto out = sink.reserve(a.flow, packet::frame_size(p.bth.opcode, 0));
  if (out.empty()) return Step::sink_full;
  packet::encode_headers(p, out);
  sink.commit();

  r.reads.push_back(r.psn + (piece - 1));
  r.since_ack_request = 0;
  const Psn asked = r.psn;
  advance(qp, wqe, piece);
  note_sent(qp, asked, now);
  return Step::sent;
}

/// One packet of a SEND or WRITE.
Step send_data(Services& services, QueuePair& qp, packet::FrameSink& sink, SendWqe& wqe,
               Instant now) {
  Requester& r = qp.requester;
  const QpAttributes& a = qp.attributes;
  const std::uint32_t offset = r.packet * a.path_mtu;
  const std::uint32_t length = std::min<std::uint32_t>(a.path_mtu, wqe.length - offset);
  const bool first = r.packet == 0;
  const bool last = r.packet + 1 == wqe.packets;
  const bool window_closes = room(qp) == 1;

  packet::Packet p;
  p.bth.opcode = opcode_of(wqe.kind, first, last);
  p.bth.solicited = wqe.solicited && last;
  p.bth.pad = packet::pad_of(length);
  p.bth.destination = a.dest_qpn;
  p.bth.psn = r.psn;
  p.bth.ack_request = last || window_closes ||
                      ++r.since_ack_request >= std::max(qp.completer.window.packets() / 4, 1u);
  p.reth = {wqe.remote_address, wqe.rkey, wqe.length};
  p.immediate = wqe.immediate;

  const auto out = sink.reserve(a.flow, packet::frame_size(p.bth.opcode, length));
  if (out.empty()) return Step::sink_full;
  const std::size_t headers = packet::header_size(p.bth.opcode);
  const auto payload = out.subspan(headers, length);
  if (wqe.inlined) {
    const auto bytes = qp.sq.inline_bytes(r.wqe).subspan(offset, length);
    std::copy(bytes.begin(), bytes.end(), payload.begin());
  } else if (length > 0 && (!resolve(services.keys, qp.pd, qp.sq.sges(r.wqe), offset, length, 0,
                                     services.segments) ||
                            !services.dma.gather(services.segments, payload))) {
    r.fault = CompletionStatus::local_protection_error;
    return Step::wait;  // the room is not committed
  }
  packet::encode_headers(p, out);
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(headers + length), out.end(),
            std::uint8_t{0});
  sink.commit();

  if (p.bth.ack_request) r.since_ack_request = 0;
  const Psn sent = r.psn;
  advance(qp, wqe, 1);
  note_sent(qp, sent, now);
  return Step::sent;
}

}  // namespace

Sent transmit_requests(Services& services, QueuePair& qp, packet::FrameSink& sink, unsigned budget,
                       Instant now) {
  Requester& r = qp.requester;
  if (qp.state.load(std::memory_order_relaxed) != QpState::rts || now < r.wait_until) {
    return Sent::all;
  }
  for (unsigned sent = 0; r.wqe != qp.sq.tail(); ++sent) {
    if (r.fault) {
      // Requests before the faulty one complete first.
      if (qp.completer.unacked == r.psn) fail_send(services, qp, *r.fault);
      return Sent::all;
    }
    if (room(qp) == 0) return Sent::all;
    if (sent == budget) return Sent::more;

    SendWqe& wqe = qp.sq.at(r.wqe);
    if (!wqe.started && !start(qp, wqe)) return Sent::all;
    const Step step = wqe.is_read() ? send_read(services, qp, sink, wqe, now)
                                    : send_data(services, qp, sink, wqe, now);
    if (step == Step::sink_full) return Sent::sink_full;
    if (step == Step::sent) ++services.counters.sent_pkts;
    if (step == Step::wait && !r.fault) return Sent::all;
  }
  return Sent::all;
}

void move_cursor(QueuePair& qp, Psn psn) {
  Requester& r = qp.requester;
  r.wqe = qp.sq.head();
  while (r.wqe != qp.sq.tail()) {
    const SendWqe& wqe = qp.sq.at(r.wqe);
    if (!wqe.started || distance(psn, wqe.last_psn()) <= 0) break;
    ++r.wqe;
  }
  const bool inside = r.wqe != qp.sq.tail() && qp.sq.at(r.wqe).started;
  r.packet = inside ? static_cast<std::uint32_t>(distance(psn, qp.sq.at(r.wqe).first_psn)) : 0;
  r.psn = psn;
  r.since_ack_request = 0;
  r.fault.reset();
  while (!r.reads.empty() && distance(r.reads.back(), psn) >= 0) r.reads.pop_back();
}

}  // namespace verbena::engine
