#include "engine/responder.h"

#include <algorithm>
#include <array>
#include <new>

#include "engine/frames_ahead.h"
#include "engine/placement.h"
#include "engine/queue_pair.h"
#include "engine/unreliable.h"
#include "engine/window_binding.h"

namespace verbena::engine {

namespace {

using packet::Kind;
using packet::NakCode;
using packet::Packet;
using packet::Syndrome;

/// What a check found: nothing, or the answer that refuses the request.
using Refusal = std::optional<Syndrome>;

constexpr Syndrome kInvalid = Syndrome::nak(NakCode::invalid_request);
constexpr Syndrome kNoAccess = Syndrome::nak(NakCode::remote_access_error);

bool is_atomic(Kind k) { return k == Kind::compare_swap || k == Kind::fetch_add; }

/// Requests that get a response of their own.
bool is_answered(Kind k) {
  return k == Kind::read_request || is_atomic(k) || k == Kind::flush || k == Kind::atomic_write;
}

bool takes_receive(const Packet& p) {
  return (p.info().kind == Kind::send && p.info().first) ||
         (p.info().kind == Kind::write && p.info().immediate);
}

/// Of the last packet of a message.
bool completes_receive(const Packet& p) {
  return p.info().kind == Kind::send || p.info().immediate;
}

/// What the queue pair, and the region, must grant.
unsigned access_for(const Packet& p) {
  switch (p.info().kind) {
    case Kind::write:
    case Kind::atomic_write:
      return Access::kRemoteWrite;
    case Kind::read_request:
      return Access::kRemoteRead;
    case Kind::compare_swap:
    case Kind::fetch_add:
      return Access::kRemoteAtomic;
    case Kind::flush:
      return (p.feth.global_visibility ? Access::kFlushGlobal : 0) |
             (p.feth.persistence ? Access::kFlushPersistent : 0);
    default:
      return 0;
  }
}

/// C9-72 ff.: FIRST or ONLY begins a message, MIDDLE and LAST continue the same kind.
Refusal check_order(const Responder& r, const Packet& p) {
  const bool between = r.message == Kind::none;
  const bool fits = p.info().first ? between : r.message == p.info().kind;
  return fits ? Refusal{} : kInvalid;
}

/// C9-81: the queue pair must permit the operation. Flushing goes by the region alone.
Refusal check_permitted(const QueuePair& qp, const Packet& p) {
  if (p.info().kind == Kind::flush) return {};
  const unsigned needed = access_for(p);
  return (qp.attributes.access & needed) == needed ? Refusal{} : kInvalid;
}

/// C9-86, C9-90: a receive, or room for one more response.
Refusal check_resources(Services& services, QueuePair& qp, const Packet& p) {
  if (takes_receive(p) && !take_receive(services, qp)) {
    return Syndrome::rnr_nak(qp.attributes.min_rnr_timer);
  }
  if (is_answered(p.info().kind)) {
    const auto fresh = qp.responder.responses.count_if([](const Response& r) { return !r.replay; });
    if (fresh >= qp.attributes.max_dest_rd_atomic) return kInvalid;
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

  if (info.reth && p.reth.length > kMaxMessage) return kInvalid;
  if (info.kind == Kind::atomic_write)
    return size == 8 && p.reth.length == 8 ? Refusal{} : kInvalid;
  if (is_answered(info.kind)) return size == 0 ? Refusal{} : kInvalid;
  if (size > mtu || (!info.last && size != mtu) || (info.last && !info.first && size == 0)) {
    return kInvalid;
  }
  if (info.kind == Kind::write) {
    const packet::Reth& reth = info.first ? p.reth : r.target;
    const std::uint32_t left = reth.length - (info.first ? 0 : r.received);
    if (info.last ? size != left : size >= left) return kInvalid;
  }
  return {};
}

Refusal check_range(const Services& services, const QueuePair& qp, const packet::Reth& reth,
                    unsigned access) {
  if (reth.length == 0) return {};  // C9-88: nothing is touched, so nothing is checked
  const bool granted = remote_region(services, qp, remote_pd(qp), reth.rkey, reth.address,
                                     reth.length, access) != nullptr;
  return granted ? Refusal{} : kNoAccess;
}

/// C9-215: the word is aligned. With an iova of the program's choice that must hold for where it
/// really lies, too: the CPU's atomics want it.
Refusal check_word(const Services& services, const QueuePair& qp, std::uint64_t address, Key rkey,
                   unsigned access) {
  if (address % 8 != 0) return kInvalid;
  const MemoryRegion* region = remote_region(services, qp, remote_pd(qp), rkey, address, 8, access);
  if (region == nullptr) return kNoAccess;
  return region->translate(address) % 8 == 0 ? Refusal{} : kInvalid;
}

/// C9-104, C9-112: key, domain, access and bounds, before a byte moves.
Refusal check_memory(const Services& services, const QueuePair& qp, const Packet& p) {
  const unsigned access = access_for(p);
  switch (p.info().kind) {
    case Kind::read_request:
      return check_range(services, qp, p.reth, access);
    case Kind::write:
      // The region may be gone since the first packet: look again at each.
      return check_range(services, qp, p.info().first ? p.reth : qp.responder.target, access);
    case Kind::compare_swap:
    case Kind::fetch_add:
      return check_word(services, qp, p.atomic_eth.address, p.atomic_eth.rkey, access);
    case Kind::atomic_write:
      return check_word(services, qp, p.reth.address, p.reth.rkey, access);
    case Kind::flush:
      if (p.feth.selectivity == packet::Selectivity::range) {
        return check_range(services, qp, p.reth, access);
      }
      // The whole region: the address is not looked at.
      if (const MemoryRegion* region = services.keys.find(p.reth.rkey)) {
        return check_range(services, qp, {region->iova, p.reth.rkey, 1}, access);
      }
      return kNoAccess;
    default:
      return {};
  }
}

/// What came before is in its place, or nowhere, before the program hears of the end and uses its
/// memory for something else.
void finish_copies(Services& services, const QueuePair& qp) {
  if (services.copies.owner() == &qp) static_cast<void>(services.copies.finish());
}

/// Refuses the request that is expected, and ends the queue pair.
void refuse(Services& services, QueuePair& qp, Syndrome syndrome) {
  finish_copies(services, qp);
  qp.responder.answer = syndrome;
  enter_error(services, qp,
              syndrome.nak_code() == NakCode::remote_access_error ? EventKind::qp_access_error
                                                                  : EventKind::qp_request_error);
}

/// The program's own receive is no good.
void refuse_receive(Services& services, QueuePair& qp) {
  finish_copies(services, qp);
  qp.responder.answer = Syndrome::nak(NakCode::remote_operational_error);
  fail_receive(services, qp, CompletionStatus::local_protection_error);
  enter_error(services, qp);
}

bool execute_send(Services& services, QueuePair& qp, const Packet& p) {
  switch (place_send(services, qp, p.payload, qp.responder.received)) {
    case Placed::yes:
      break;
    case Placed::too_long:
      fail_receive(services, qp, CompletionStatus::local_length_error);
      refuse(services, qp, kInvalid);
      return false;
    case Placed::fault:
      refuse_receive(services, qp);
      return false;
  }
  if (p.info().ieth && !invalidate_remotely(services, qp, p.ieth.rkey)) {
    refuse(services, qp, kNoAccess);
    return false;
  }
  return true;
}

/// How long the acknowledgement of a whole message may wait for the program's answer.
Duration let_answer_wait(const Services& services, QueuePair& qp, const Packet& p) {
  const auto& woken = services.notifications;
  Conversation& conversation = qp.responder.conversation;
  if (completes_receive(p) && std::find(woken.begin(), woken.end(), qp.receive_cq) != woken.end()) {
    conversation.woken();
    return {};
  }
  return conversation.heard(services.now);
}

void execute_data(Services& services, QueuePair& qp, const Packet& p) {
  Responder& r = qp.responder;
  const auto& info = p.info();
  if (info.first) {
    r.received = 0;
    r.target = p.reth;
  }
  if (info.kind == Kind::send) {
    if (!execute_send(services, qp, p)) return;
  } else if (!place_write(services, qp, p.payload)) {
    refuse(services, qp, kNoAccess);
    return;
  }
  r.received += static_cast<std::uint32_t>(p.payload.size());
  r.message = info.last ? Kind::none : info.kind;
  r.expected = r.expected.next();
  if (info.last) {
    r.msn = (r.msn + 1) & Psn::kMask;
    if (completes_receive(p)) complete_receive(services, qp, p);
    // Nobody will hear of it: then the peer must not think so.
    if (qp.state.load(std::memory_order_relaxed) == QpState::error) {
      r.expected = p.bth.psn;
      r.msn = (r.msn - 1) & Psn::kMask;
      return;
    }
  }
  if (p.bth.ack_request && r.answer) ++qp.counters.ack_deferred;
  // A gap that has been filled needs no NAK any more.
  if (p.bth.ack_request || r.answer) r.answer = Syndrome::ack();
  r.answer_by = services.now;
  if (info.last) r.answer_by += let_answer_wait(services, qp, p);
}

/// XRC: the receive queue that the request names, and with it the domain of the memory that the
/// request may reach. False: there is none such in this XRC domain.
bool choose_srq(const Services& services, QueuePair& qp, const Packet& p) {
  if (qp.type != QpType::xrc_receive) return true;
  const bool inside_message = !p.info().first && !takes_receive(p);
  if (inside_message && qp.responder.xrc_srq != nullptr) return true;
  const auto it = services.srqs.find(p.xrceth.xrcsrq);
  if (it == services.srqs.end() || it->second->xrc_cq == nullptr || it->second->xrcd != qp.xrcd) {
    return false;
  }
  qp.responder.xrc_srq = it->second.get();
  return true;
}

/// Of the receive that a request may take.
std::uint32_t max_receive_sge(const Services& services, const QueuePair& qp, const Packet& p) {
  if (qp.srq != nullptr) return qp.srq->queue.max_sge();
  if (qp.type != QpType::xrc_receive) return qp.rq.max_sge();
  const auto named = services.srqs.find(p.xrceth.xrcsrq);
  return named != services.srqs.end() ? named->second->queue.max_sge() : 0;
}

/// READ, atomics, FLUSH, ATOMIC_WRITE: each is answered by a response.
void execute_answered(Services& services, QueuePair& qp, const Packet& p) {
  Responder& r = qp.responder;
  Response response{.to = p.info().kind, .psn = p.bth.psn, .source = p.reth, .pd = remote_pd(qp)};
  std::uint32_t psns = 1;
  if (p.info().kind == Kind::read_request) {
    psns = packets_of(p.reth.length, qp.attributes.path_mtu);
  } else if (is_atomic(p.info().kind)) {
    const packet::AtomicEth& a = p.atomic_eth;
    const std::uint64_t word = services.keys.find(a.rkey)->translate(a.address);
    const auto original = p.info().kind == Kind::compare_swap
                              ? services.dma.compare_swap(word, a.compare, a.swap_or_add)
                              : services.dma.fetch_add(word, a.swap_or_add);
    if (!original) {
      refuse(services, qp, kNoAccess);
      return;
    }
    response.original = *original;
    r.atomics.push_back({p.bth.psn, *original});
    if (r.atomics.size() > qp.attributes.max_dest_rd_atomic) r.atomics.pop_front();
  } else if (p.info().kind == Kind::atomic_write) {
    std::uint64_t value = 0;
    std::copy(p.payload.begin(), p.payload.end(), reinterpret_cast<std::uint8_t*>(&value));
    if (!services.dma.store(services.keys.find(p.reth.rkey)->translate(p.reth.address), value)) {
      refuse(services, qp, kNoAccess);
      return;
    }
  }
  // FLUSH: what arrived was placed by coherent CPU stores, so there is nothing left to flush.
  r.expected = r.expected + psns;
  r.msn = (r.msn + 1) & Psn::kMask;
  response.msn = r.msn;
  r.answer.reset();  // the response acknowledges all before it
  r.responses.push_back(response);
}

/// One past the last PSN of a response.
Psn end_of(const Response& r, std::uint32_t mtu) {
  const std::uint32_t left = r.to == Kind::read_request ? r.source.length - r.sent : 0;
  return r.psn + packets_of(left, mtu);
}

/// C9-105 ff.: what was executed is acknowledged again, never executed again; a READ is read
/// again, from where asked; an atomic gets the answer that was saved.
void handle_duplicate(Services& services, QueuePair& qp, const Packet& p) {
  Responder& r = qp.responder;
  const Kind kind = p.info().kind;
  ++qp.counters.duplicate_request;
  if (!is_answered(kind)) {
    if (!r.answer) r.answer = Syndrome::ack();
    r.answer_by = services.now;
    return;
  }
  Response response{.to = kind, .psn = p.bth.psn, .msn = r.msn, .source = p.reth};
  response.replay = true;
  if (kind == Kind::read_request) {
    const Psn end = p.bth.psn + packets_of(p.reth.length, qp.attributes.path_mtu);
    if (distance(end, r.expected) > 0 || check_permitted(qp, p) || !choose_srq(services, qp, p) ||
        check_length(qp, p) || check_memory(services, qp, p)) {
      return;  // not the READ that we have seen
    }
    response.pd = remote_pd(qp);
  } else if (is_atomic(kind)) {
    const SavedAtomic* saved =
        r.atomics.find_if([&](const SavedAtomic& s) { return s.psn == p.bth.psn; });
    if (saved == nullptr) return;
    response.original = saved->original;
  }
  // The requester has gone back to here: it has all before this packet, and asks again for what
  // comes after. Answers that end before it are still wanted: several READs may be asked for anew.
  r.responses.remove_if([&](const Response& queued) {
    return distance(end_of(queued, qp.attributes.path_mtu), p.bth.psn) > 0;
  });
  if (r.responses.size() < qp.attributes.max_dest_rd_atomic) r.responses.push_back(response);
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
  if (!refusal && !choose_srq(services, qp, p)) refusal = kInvalid;
  if (!refusal) refusal = check_resources(services, qp, p);
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
  is_answered(p.info().kind) ? execute_answered(services, qp, p) : execute_data(services, qp, p);
}

namespace {

enum class ResponseStep : std::uint8_t { sent, sink_full, failed };

/// One packet of a response; `budget` more may follow. A READ's opcode follows from the place in
/// the response.
ResponseStep send_response(Services& services, QueuePair& qp, packet::FrameSink& sink,
                           Response& response, unsigned budget, FramesAhead& ahead) {
  const QpAttributes& a = qp.attributes;
  const bool reads = response.to == Kind::read_request;
  const std::uint32_t whole = reads ? response.source.length : 0;
  const std::uint32_t length = std::min<std::uint32_t>(a.path_mtu, whole - response.sent);
  const packet::Part part{.first = response.sent == 0, .last = response.sent + length == whole};

  Packet p;
  p.bth.opcode = *packet::opcode_for(
      qp.service(), is_atomic(response.to) ? Kind::atomic_acknowledge : Kind::read_response, part);
  p.bth.pad = packet::pad_of(length);
  p.bth.destination = a.dest_qpn;
  p.bth.psn = response.psn;
  p.aeth = {Syndrome::ack(), response.msn};
  p.atomic_ack_eth = {response.original};

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
    const std::uint32_t count = std::min({alike, budget, FramesAhead::kMost});
    if (count > 1) {
      ahead.fill(services.dma, sink, a.flow, headers, length, region->translate(address), count);
    }
  }
  auto out = ahead.take();
  if (out.empty()) {
    out = sink.reserve(a.flow, packet::frame_size(p.bth.opcode, length));
    if (out.empty()) return ResponseStep::sink_full;
    if (length > 0) {
      const std::array from{Segment{region->translate(address), length}};
      if (!services.dma.gather(from, out.subspan(headers, length))) return ResponseStep::failed;
    }
  }
  packet::encode_headers(p, out);
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(headers + length), out.end(),
            std::uint8_t{0});
  sink.commit();
  note_frame(services, qp, p, length);
  response.psn = response.psn.next();
  response.sent += length;
  return ResponseStep::sent;
}

bool send_answer(Services& services, QueuePair& qp, packet::FrameSink& sink, Syndrome syndrome,
                 Psn psn) {
  const QpAttributes& a = qp.attributes;
  Packet p;
  p.bth.opcode =
      *packet::opcode_for(qp.service(), Kind::acknowledge, {.first = true, .last = true});
  p.bth.destination = a.dest_qpn;
  p.bth.psn = psn;
  p.aeth = {syndrome, qp.responder.msn};
  const auto out = sink.reserve(a.flow, packet::frame_size(p.bth.opcode, 0));
  if (out.empty()) return false;
  packet::encode_headers(p, out);
  sink.commit();
  note_frame(services, qp, p, 0);
  return true;
}

/// Congestion notification packet. False: no room.
bool send_notice(Services& services, QueuePair& qp, packet::FrameSink& sink) {
  Packet p;
  p.bth.opcode = packet::Opcode::cnp;
  p.bth.migration = false;
  p.bth.becn = true;
  p.bth.destination = qp.attributes.dest_qpn;
  const auto out = sink.reserve(qp.attributes.flow, packet::frame_size(p.bth.opcode, 0));
  if (out.empty()) return false;
  packet::encode_headers(p, out);
  sink.commit();
  note_frame(services, qp, p, 0);
  ++qp.counters.sent_cnps;
  return true;
}

}  // namespace

void refuse_unplaced(Services& services, QueuePair& qp) {
  // The newest that came: the peer knows no PSN behind it yet.
  qp.responder.expected = qp.responder.expected.previous();
  if (qp.responder.message == Kind::send) {
    refuse_receive(services, qp);
  } else {
    refuse(services, qp, kNoAccess);
  }
}

void note_congestion(Responder& r, Instant now) {
  constexpr Duration kSpacing = std::chrono::microseconds{50};
  if (now < r.next_notice) return;
  r.congested = true;
  r.next_notice = now + kSpacing;
}

void answer_with_request(Responder& r, Instant now) {
  r.conversation.answered(now);
  r.answer_by = now;
}

Sent transmit_responses(Services& services, QueuePair& qp, packet::FrameSink& sink,
                        unsigned budget) {
  Responder& r = qp.responder;
  if (r.congested) {
    if (!send_notice(services, qp, sink)) return Sent::sink_full;
    r.congested = false;
  }
  if (!transmit_reached_marks(services, qp, sink)) return Sent::sink_full;
  FramesAhead ahead;
  for (unsigned sent = 0; !r.responses.empty(); ++sent) {
    if (sent == budget) return Sent::more;
    Response& response = r.responses.front();
    const ResponseStep step = send_response(services, qp, sink, response, budget - sent, ahead);
    if (step == ResponseStep::sink_full) return Sent::sink_full;
    if (step == ResponseStep::failed) {
      // The memory went away under the READ: the packet that is missing is refused.
      if (!send_answer(services, qp, sink, kNoAccess, response.psn)) return Sent::sink_full;
      r.responses.clear();
      r.answer.reset();
      enter_error(services, qp, EventKind::qp_access_error);
      return Sent::all;
    }
    const bool done = response.to != Kind::read_request || response.sent == response.source.length;
    if (done) r.responses.pop_front();
  }
  r.waiting_until = kNever;
  if (r.answer) {
    // An ACK is for the newest request that was executed, a NAK for the one that is wanted.
    const bool ack = r.answer->type() == Syndrome::Type::ack;
    // Who awaits an acknowledgement itself gives its own: else two could wait for each other.
    if (ack && services.now < r.answer_by && drained(qp)) {
      r.waiting_until = r.answer_by;
      return Sent::all;
    }
    if (!send_answer(services, qp, sink, *r.answer, ack ? r.expected.previous() : r.expected)) {
      return Sent::sink_full;
    }
    r.answer.reset();
  }
  return Sent::all;
}

void transmit_farewell(Services& services, QueuePair& qp, packet::FrameSink& sink) {
  constexpr int kTimes = 2;  // with 1 % loss, one QP in a million is still misunderstood
  const Responder& r = qp.responder;
  const bool executed = r.expected != qp.attributes.rq_psn;
  if (!executed || !r.responses.empty()) return;  // a response that is lost must not look given
  for (int i = 0; i < kTimes; ++i) {
    if (!send_answer(services, qp, sink, Syndrome::ack(), r.expected.previous())) return;
  }
}

}  // namespace verbena::engine
