#include "engine/responder_transmit.h"

#include <algorithm>
#include <array>

#include "engine/frames_ahead.h"
#include "engine/marks.h"
#include "engine/message_rules.h"
#include "engine/remote_access.h"
#include "engine/responder_checks.h"

namespace verbena::engine {

using packet::Kind;
using packet::Packet;
using packet::Syndrome;

namespace {

packet::Flow flow_of_answers(const QueuePair& qp) {
  packet::Flow flow = qp.attributes.flow;
  flow.way = qp.responder.way;
  return flow;
}

enum class ResponseStep : std::uint8_t { sent, stalled, failed };

/// The headers of a response's next packet. A READ's opcode follows from the place in the response.
Packet next_packet(const QueuePair& qp, const Response& response, packet::Part part,
                   std::uint32_t length) {
  Packet p;
  p.bth.opcode = *packet::opcode_for(
      qp.service(), is_atomic(response.to) ? Kind::atomic_acknowledge : Kind::read_response, part);
  p.bth.pad = packet::pad_of(length);
  p.bth.destination = qp.attributes.dest_qpn;
  p.bth.psn = response.psn;
  p.aeth = {Syndrome::ack(), response.msn};
  p.atomic_ack_eth = {response.original};
  return p;
}

/// One packet of a response; `budget` more may follow.
ResponseStep send_response(Services& services, QueuePair& qp, packet::FrameSink& sink,
                           Response& response, unsigned budget, FramesAhead& ahead) {
  const QpAttributes& a = qp.attributes;
  const packet::Flow flow = flow_of_answers(qp);
  const bool reads = response.to == Kind::read_request;
  const std::uint32_t whole = reads ? response.source.length : 0;
  const std::uint32_t length = std::min<std::uint32_t>(a.path_mtu, whole - response.sent);
  const packet::Part part{.first = response.sent == 0, .last = response.sent + length == whole};

  const Packet p = next_packet(qp, response, part, length);
  const std::size_t headers = packet::header_size(p.bth.opcode);
  const std::uint64_t address = response.source.address + response.sent;
  // The region may have gone since the last packet.
  const MemoryRegion* region =
      length == 0 ? nullptr
                  : remote_region(services, qp, response.pd, response.source.rkey, address,
                                  whole - response.sent, Access::kRemoteRead);
  if (length > 0 && region == nullptr) return ResponseStep::failed;
  if (part.first || part.last) {
    ahead.forget();
  } else if (ahead.empty()) {
    const std::uint32_t alike = (whole - response.sent - 1) / a.path_mtu;  // the last isn't
    const Segment from = region->segment(address, whole);
    const std::uint32_t count = std::min(alike, FramesAhead::most(from, budget));
    if (budget > 1 && count > 1) {
      ahead.fill(sink, flow, a.dest_qpn, headers, length, from, count);
    }
  }
  auto out = ahead.take();
  if (out.empty()) {
    out = sink.reserve(flow, a.dest_qpn, packet::frame_size(p.bth.opcode, length));
    if (out.empty()) return ResponseStep::stalled;
    if (length > 0) {
      const std::array from{region->segment(address, length)};
      if (!services.copies.gather(from, out.subspan(headers, length))) return ResponseStep::failed;
    }
  }
  packet::encode_headers(p, out);
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(headers + length), out.end(),
            std::uint8_t{0});
  sink.commit();
  note_frame(services, qp, flow, p, length);
  response.psn = response.psn.next();
  response.sent += length;
  return ResponseStep::sent;
}

bool send_answer(Services& services, QueuePair& qp, packet::FrameSink& sink, Syndrome syndrome,
                 Psn psn) {
  const packet::Flow flow = flow_of_answers(qp);
  Packet p;
  p.bth.opcode =
      *packet::opcode_for(qp.service(), Kind::acknowledge, {.first = true, .last = true});
  p.bth.destination = qp.attributes.dest_qpn;
  p.bth.psn = psn;
  p.aeth = {syndrome, qp.responder.msn};
  const auto out = sink.reserve(flow, p.bth.destination, packet::frame_size(p.bth.opcode, 0));
  if (out.empty()) return false;
  packet::encode_headers(p, out);
  sink.commit();
  note_frame(services, qp, flow, p, 0);
  return true;
}

/// Congestion notification packet. False: no room.
bool send_notice(Services& services, QueuePair& qp, packet::FrameSink& sink) {
  Packet p;
  p.bth.opcode = packet::Opcode::cnp;
  p.bth.migration = false;
  p.bth.becn = true;
  p.bth.destination = qp.attributes.dest_qpn;
  const packet::Flow flow = flow_of_answers(qp);
  const auto out = sink.reserve(flow, p.bth.destination, packet::frame_size(p.bth.opcode, 0));
  if (out.empty()) return false;
  packet::encode_headers(p, out);
  sink.commit();
  note_frame(services, qp, flow, p, 0);
  ++qp.counters.sent_cnps;
  return true;
}

/// Lets an acknowledgement wait for a request that it can leave with. False: it must not.
bool let_answer_wait(const Services& services, QueuePair& qp) {
  Responder& r = qp.responder;
  // An end that awaits an acknowledgement gives its own at once: else two could wait for each
  // other.
  const bool may =
      r.answer->type() == Syndrome::Type::ack && services.now < r.answer_by && drained(qp);
  r.waiting_until = may ? r.answer_by : kNever;
  return may;
}

/// The acknowledgement or NAK, if it is due.
Sent transmit_answer(Services& services, QueuePair& qp, packet::FrameSink& sink) {
  Responder& r = qp.responder;
  if (!r.answer) r.waiting_until = kNever;
  if (!r.answer || let_answer_wait(services, qp)) return Sent::all;
  // An ACK is for the newest request that was executed, a NAK for the one that is wanted.
  const bool ack = r.answer->type() == Syndrome::Type::ack;
  if (!send_answer(services, qp, sink, *r.answer, ack ? r.expected.previous() : r.expected)) {
    return Sent::stalled;
  }
  r.answer.reset();
  return Sent::all;
}

}  // namespace

bool responses_are_due(const Services& services, QueuePair& qp) {
  const Responder& r = qp.responder;
  if (!has_responses(r)) return false;
  const bool answer_alone = r.answer && r.responses.empty() && r.marks.empty() && !r.congested;
  return !answer_alone || !let_answer_wait(services, qp);
}

Sent transmit_responses(Services& services, QueuePair& qp, packet::FrameSink& sink,
                        unsigned budget) {
  Responder& r = qp.responder;
  if (r.congested) {
    if (!send_notice(services, qp, sink)) return Sent::stalled;
    r.congested = false;
  }
  if (!transmit_reached_marks(services, qp, sink)) return Sent::stalled;
  FramesAhead ahead;
  for (unsigned sent = 0; !r.responses.empty(); ++sent) {
    if (sent >= budget && ahead.empty()) return Sent::more;
    Response& response = r.responses.front();
    const unsigned left = budget - std::min(sent, budget);
    const ResponseStep step = send_response(services, qp, sink, response, left, ahead);
    if (step == ResponseStep::stalled) return Sent::stalled;
    if (step == ResponseStep::failed) {
      // The memory went away under the READ: the packet that is missing is refused.
      if (!send_answer(services, qp, sink, kNoAccess, response.psn)) return Sent::stalled;
      if (response.replay) {
        // A request that arrives late may have been served long ago: that is no error.
        r.responses.pop_front();
        ahead.forget();
        continue;
      }
      r.responses.clear();
      r.answer.reset();
      enter_error(services, qp, EventKind::qp_access_error);
      return Sent::all;
    }
    const bool done = response.to != Kind::read_request || response.sent == response.source.length;
    if (done) r.responses.pop_front();
  }
  return transmit_answer(services, qp, sink);
}

void transmit_last_ack_again(Services& services, QueuePair& qp, packet::FrameSink& sink) {
  constexpr int kTimes = 2;  // with 1 % loss, one QP in a million is still misunderstood
  const Responder& r = qp.responder;
  const bool executed = r.expected != qp.attributes.rq_psn;
  if (!executed || !r.responses.empty()) return;  // a response that is lost must not look given
  for (int i = 0; i < kTimes; ++i) {
    if (!send_answer(services, qp, sink, Syndrome::ack(), r.expected.previous())) return;
  }
}

}  // namespace verbena::engine
