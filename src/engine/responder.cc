#include "engine/responder.h"

#include <algorithm>
#include <array>

#include "engine/queue_pair.h"

namespace verbena::engine {

namespace {

using packet::Kind;
using packet::NakCode;
using packet::Packet;
using packet::Syndrome;

/// What a check found: nothing, or the answer that refuses the request.
using Refusal = std::optional<Syndrome>;

bool takes_receive(const Packet& p) {
  return (p.info().kind == Kind::send && p.info().first) ||
         (p.info().kind == Kind::write && p.info().immediate);
}

/// C9-72 ff.: FIRST or ONLY begins a message, MIDDLE and LAST continue the same kind.
Refusal check_order(const Responder& r, const Packet& p) {
  const bool between = r.message == Kind::none;
  const bool fits = p.info().first ? between : r.message == p.info().kind;
  return fits ? Refusal{} : Syndrome::nak(NakCode::invalid_request);
}

/// C9-81: the queue pair must permit the operation.
Refusal check_permitted(const QueuePair& qp, const Packet& p) {
  // SEND with invalidate: no window or region can be invalidated from afar yet.
  if (p.info().ieth) return Syndrome::nak(NakCode::invalid_request);
  const unsigned access = qp.attributes.access;
  const bool permitted = p.info().kind == Kind::write ? (access & Access::kRemoteWrite) != 0
                         : p.info().kind == Kind::read_request ? (access & Access::kRemoteRead) != 0
                                                               : true;
  return permitted ? Refusal{} : Syndrome::nak(NakCode::invalid_request);
}

/// C9-86, C9-90: a receive, or room for one more READ.
Refusal check_resources(const QueuePair& qp, const Packet& p) {
  if (takes_receive(p) && qp.rq.empty()) return Syndrome::rnr_nak(qp.attributes.min_rnr_timer);
  if (p.info().kind == Kind::read_request &&
      qp.responder.reads.size() >= qp.attributes.max_dest_rd_atomic) {
    return Syndrome::nak(NakCode::invalid_request);
  }
  return {};
}

/// C9-97 ff.: FIRST and MIDDLE are full, LAST isn't empty, nothing is more than the MTU; and
/// a WRITE is as long as it said.
Refusal check_length(const QueuePair& qp, const Packet& p) {
  const Responder& r = qp.responder;
  const auto size = static_cast<std::uint32_t>(p.payload.size());
  const std::uint32_t mtu = qp.attributes.path_mtu;
  const auto& info = p.info();
  const auto wrong = Syndrome::nak(NakCode::invalid_request);

  if (info.reth && p.reth.length > kMaxMessage) return wrong;
  if (info.kind == Kind::read_request) return size == 0 ? Refusal{} : wrong;
  if (size > mtu || (!info.last && size != mtu) || (info.last && !info.first && size == 0)) {
    return wrong;
  }
  if (info.kind == Kind::write) {
    const packet::Reth& reth = info.first ? p.reth : r.target;
    const std::uint32_t left = reth.length - (info.first ? 0 : r.received);
    if (info.last ? size != left : size >= left) return wrong;
  }
  return {};
}

/// C9-104, C9-112: key, domain, access and bounds, before a byte moves. `bytes` of 0 asks for
/// nothing (C9-88).
Refusal check_region(const Services& services, const QueuePair& qp, Key rkey, std::uint64_t address,
                     std::uint32_t bytes, unsigned access) {
  if (bytes == 0) return {};
  const MemoryRegion* region = services.keys.find(rkey);
  const bool granted = region != nullptr && region->pd == qp.pd && (region->access & access) != 0 &&
                       region->contains(address, bytes);
  return granted ? Refusal{} : Syndrome::nak(NakCode::remote_access_error);
}

Refusal check_memory(const Services& services, const QueuePair& qp, const Packet& p) {
  const Responder& r = qp.responder;
  switch (p.info().kind) {
    case Kind::read_request:
      return check_region(services, qp, p.reth.rkey, p.reth.address, p.reth.length,
                          Access::kRemoteRead);
    case Kind::write: {
      // The region may be gone since the first packet: look again at each.
      const packet::Reth& target = p.info().first ? p.reth : r.target;
      return check_region(services, qp, target.rkey, target.address, target.length,
                          Access::kRemoteWrite);
    }
    default:
      return {};
  }
}

/// Ends the receive at the head of the queue with an error, and the queue pair.
void fail_receive(Services& services, QueuePair& qp, CompletionStatus status, NakCode nak) {
  const Completion failed{.wr_id = qp.rq.front().wr_id,
                          .status = status,
                          .kind = CompletionKind::receive,
                          .qpn = qp.qpn};
  qp.rq.pop();
  qp.responder.answer = Syndrome::nak(nak);
  complete(services, qp, *qp.receive_cq, failed);
  enter_error(services, qp);
}

bool place_send(Services& services, QueuePair& qp, const Packet& p) {
  const auto size = static_cast<std::uint32_t>(p.payload.size());
  const std::uint32_t offset = qp.responder.received;
  if (size > qp.rq.front().length - std::min(offset, qp.rq.front().length)) {
    fail_receive(services, qp, CompletionStatus::local_length_error, NakCode::invalid_request);
    return false;
  }
  if (size > 0 && (!resolve(services.keys, qp.pd, qp.rq.sges(), offset, size, Access::kLocalWrite,
                            services.segments) ||
                   !services.dma.scatter(p.payload, services.segments))) {
    fail_receive(services, qp, CompletionStatus::local_protection_error,
                 NakCode::remote_operational_error);
    return false;
  }
  return true;
}

bool place_write(Services& services, QueuePair& qp, const Packet& p) {
  if (p.payload.empty()) return true;
  const Responder& r = qp.responder;
  const MemoryRegion* region = services.keys.find(r.target.rkey);
  const std::array where{
      Segment{region->translate(r.target.address + r.received), p.payload.size()}};
  if (services.dma.scatter(p.payload, where)) return true;
  qp.responder.answer = Syndrome::nak(NakCode::remote_access_error);
  enter_error(services, qp);
  return false;
}

void complete_receive(Services& services, QueuePair& qp, const Packet& p) {
  const Completion done{.wr_id = qp.rq.front().wr_id,
                        .kind = p.info().kind == Kind::send
                                    ? CompletionKind::receive
                                    : CompletionKind::receive_write_immediate,
                        .has_immediate = p.info().immediate,
                        .solicited = p.bth.solicited,
                        .immediate = p.immediate,
                        .byte_count = qp.responder.received,
                        .qpn = qp.qpn};
  qp.rq.pop();
  complete(services, qp, *qp.receive_cq, done);
}

void execute_data(Services& services, QueuePair& qp, const Packet& p) {
  Responder& r = qp.responder;
  const auto& info = p.info();
  if (info.first) {
    r.received = 0;
    r.target = p.reth;
  }
  if (!(info.kind == Kind::send ? place_send(services, qp, p) : place_write(services, qp, p))) {
    return;
  }
  r.received += static_cast<std::uint32_t>(p.payload.size());
  r.message = info.last ? Kind::none : info.kind;
  r.expected = r.expected.next();
  if (info.last) {
    r.msn = (r.msn + 1) & Psn::kMask;
    if (info.kind == Kind::send || info.immediate) complete_receive(services, qp, p);
  }
  // A gap that has been filled needs no NAK any more.
  if (p.bth.ack_request || r.answer) r.answer = Syndrome::ack();
}

void execute_read(QueuePair& qp, const Packet& p) {
  Responder& r = qp.responder;
  r.expected = r.expected + packets_of(p.reth.length, qp.attributes.path_mtu);
  r.msn = (r.msn + 1) & Psn::kMask;
  r.answer.reset();  // the response acknowledges all before it
  r.reads.push_back({p.bth.psn, p.reth.address, p.reth.rkey, p.reth.length, 0, r.msn});
}

/// C9-105 ff.: what was executed is acknowledged again; a READ is read again, from where asked.
void handle_duplicate(Services& services, QueuePair& qp, const Packet& p) {
  Responder& r = qp.responder;
  ++services.counters.duplicate_request;
  if (p.info().kind != Kind::read_request) {
    if (!r.answer) r.answer = Syndrome::ack();
    return;
  }
  const Psn end = p.bth.psn + packets_of(p.reth.length, qp.attributes.path_mtu);
  if (distance(end, r.expected) > 0 || check_permitted(qp, p) || check_memory(services, qp, p)) {
    return;  // not the READ that we have seen
  }
  // The requester has gone back: it has all before this, and will ask again for what comes after.
  r.reads.clear();
  r.reads.push_back({p.bth.psn, p.reth.address, p.reth.rkey, p.reth.length, 0, r.msn});
}

}  // namespace

void handle_request(Services& services, QueuePair& qp, const Packet& p) {
  Responder& r = qp.responder;
  const auto ahead = distance(p.bth.psn, r.expected);
  if (ahead < 0) {
    handle_duplicate(services, qp, p);
    return;
  }
  if (ahead > 0) {
    ++services.counters.out_of_seq_request;
    if (!r.nak_sent) {
      r.nak_sent = true;
      r.answer = Syndrome::nak(NakCode::psn_sequence_error);
    }
    return;
  }

  Refusal refusal = check_order(r, p);
  if (!refusal) refusal = check_permitted(qp, p);
  if (!refusal) refusal = check_resources(qp, p);
  if (!refusal) refusal = check_length(qp, p);
  if (!refusal) refusal = check_memory(services, qp, p);
  if (refusal) {
    r.answer = refusal;
    if (refusal->type() == Syndrome::Type::rnr_nak) {
      ++services.counters.send_rnr_err;
      r.nak_sent = true;  // what follows is dropped until this request comes again
    } else {
      enter_error(services, qp);
    }
    return;
  }

  r.nak_sent = false;
  p.info().kind == Kind::read_request ? execute_read(qp, p) : execute_data(services, qp, p);
}

namespace {

enum class Step : std::uint8_t { sent, sink_full, failed };

/// One packet of a READ response. Its opcode follows from the place in this response.
Step send_read_response(Services& services, QueuePair& qp, packet::FrameSink& sink, ReadJob& job) {
  using enum packet::Opcode;
  const QpAttributes& a = qp.attributes;
  const std::uint32_t length = std::min<std::uint32_t>(a.path_mtu, job.length - job.sent);
  const bool first = job.sent == 0;
  const bool last = job.sent + length == job.length;

  Packet p;
  p.bth.opcode = first ? (last ? rc_read_response_only : rc_read_response_first)
                       : (last ? rc_read_response_last : rc_read_response_middle);
  p.bth.pad = packet::pad_of(length);
  p.bth.destination = a.dest_qpn;
  p.bth.psn = job.psn;
  p.aeth = {Syndrome::ack(), job.msn};

  const std::size_t headers = packet::header_size(p.bth.opcode);
  const auto out = sink.reserve(a.flow, packet::frame_size(p.bth.opcode, length));
  if (out.empty()) return Step::sink_full;
  if (length > 0) {
    const std::uint64_t address = job.address + job.sent;
    if (check_region(services, qp, job.rkey, address, length, Access::kRemoteRead)) {
      return Step::failed;
    }
    const std::array from{Segment{services.keys.find(job.rkey)->translate(address), length}};
    if (!services.dma.gather(from, out.subspan(headers, length))) return Step::failed;
  }
  packet::encode_headers(p, out);
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(headers + length), out.end(),
            std::uint8_t{0});
  sink.commit();
  job.psn = job.psn.next();
  job.sent += length;
  return Step::sent;
}

bool send_answer(QueuePair& qp, packet::FrameSink& sink, Syndrome syndrome, Psn psn) {
  const QpAttributes& a = qp.attributes;
  Packet p;
  p.bth.opcode = packet::Opcode::rc_acknowledge;
  p.bth.destination = a.dest_qpn;
  p.bth.psn = psn;
  p.aeth = {syndrome, qp.responder.msn};
  const auto out = sink.reserve(a.flow, packet::frame_size(p.bth.opcode, 0));
  if (out.empty()) return false;
  packet::encode_headers(p, out);
  sink.commit();
  return true;
}

}  // namespace

Sent transmit_responses(Services& services, QueuePair& qp, packet::FrameSink& sink,
                        unsigned budget) {
  Responder& r = qp.responder;
  for (unsigned sent = 0; !r.reads.empty(); ++sent) {
    if (sent == budget) return Sent::more;
    ReadJob& job = r.reads.front();
    const Step step = send_read_response(services, qp, sink, job);
    if (step == Step::sink_full) return Sent::sink_full;
    if (step == Step::failed) {
      // The memory went away under the READ: the response that is missing is refused.
      if (!send_answer(qp, sink, Syndrome::nak(NakCode::remote_access_error), job.psn)) {
        return Sent::sink_full;
      }
      r.reads.clear();
      r.answer.reset();
      enter_error(services, qp);
      return Sent::all;
    }
    ++services.counters.sent_pkts;
    if (job.sent == job.length) r.reads.pop_front();
  }
  if (r.answer) {
    // An ACK is for the newest request that was executed, a NAK for the one that is wanted.
    const bool ack = r.answer->type() == Syndrome::Type::ack;
    if (!send_answer(qp, sink, *r.answer, ack ? r.expected.previous() : r.expected)) {
      return Sent::sink_full;
    }
    ++services.counters.sent_pkts;
    r.answer.reset();
  }
  return Sent::all;
}

}  // namespace verbena::engine
