#pragma once

// Serves the peer's requests (IBA 9.7.3 … 9.7.5, responder side): a chain of small checks, each of
// which may refuse (responder_checks.h); then execution (responder_execution.h); then at most one
// answer for many requests (responder_transmit.h).
//
//   psn == expected : check, execute, acknowledge if asked
//   psn older       : a duplicate: acknowledge again, never execute again (READ: read again)
//   psn newer       : one NAK, then silence until the gap is filled

#include <cstdint>
#include <optional>
#include <utility>

#include "base/numbers.h"
#include "base/psn.h"
#include "base/ring.h"
#include "base/time.h"
#include "engine/ack_delay.h"
#include "engine/memory_region.h"
#include "engine/receive_queue.h"
#include "packet/aeth.h"
#include "packet/opcode.h"
#include "packet/packet.h"

namespace verbena::engine {

struct QueuePair;
struct Services;
struct SharedReceiveQueue;

/// An answer that is more than an ACK.
struct Response {
  packet::Kind to = packet::Kind::read_request;  // the request's kind
  Psn psn{};                                     // of the next packet
  std::uint32_t msn = 0;
  packet::Reth source{};       // READ: what is read
  PdId pd{};                   // … and in which domain
  std::uint32_t sent = 0;      // READ: bytes that have left
  std::uint64_t original = 0;  // atomics: what the word held
  bool replay = false;         // of a duplicate: takes no room from new requests
};

/// An atomic that was executed: a duplicate gets the same answer.
struct SavedAtomic {
  Psn psn{};
  std::uint64_t original = 0;
};

/// A mark that was reached: who is told.
struct ReachedMark {
  packet::Flow flow{};
  Qpn qpn{};
  Psn psn{};
};

struct Responder {
  Psn expected{};
  std::uint32_t msn = 0;
  bool nak_sent = false;  // for `expected`
  bool heard = false;     // the peer has sent something since RTR

  // The message that is arriving; none between messages.
  packet::Kind message = packet::Kind::none;
  std::uint32_t received = 0;
  packet::Reth target{};  // of a WRITE
  TakenReceive receive{};
  SharedReceiveQueue* xrc_srq = nullptr;  // where an XRC message gets its receive

  // What is to be sent: responses in order, then the answer to everything up to now.
  Ring<Response> responses{};
  std::optional<packet::Syndrome> answer{};
  AckDelay ack_delay{};
  Instant answer_by{};            // an ACK may wait until then for a request to leave with
  Instant waiting_until{kNever};  // it does; kNever: none waits

  Ring<ReachedMark> marks{};  // UC, UD: to be answered

  packet::Way way = packet::Way::network;  // that the last request came; answers take it
  bool way_known = false;                  // a request has come

  bool congested = false;  // a packet came marked: tell the sender
  Instant next_notice{};   // not before then

  Ring<SavedAtomic> atomics{};  // the newest max_dest_rd_atomic
};

/// What serving this request may need. False: there is no memory, and it can't be taken.
[[nodiscard]] bool make_room(const Services& services, QueuePair& qp,
                             const packet::Packet& request);

/// A request to an RC or XRC queue pair.
void handle_request(Services& services, QueuePair& qp, const packet::Packet& p);

/// A packet came with "congestion experienced" on it: its sender is told, but not too often
/// (IBA annex A17.9.3).
void note_congestion(Responder& r, Instant now);

// What the other parts of the queue pair tell the responder.

/// To RTR: the first request has this PSN.
inline void begin(Responder& r, Psn first) { r.expected = first; }

/// The peer's first request is here. True only once.
[[nodiscard]] inline bool note_heard(Responder& r) { return !std::exchange(r.heard, true); }

/// A request came this way. True: the first one, or the one before came another way.
[[nodiscard]] inline bool answer_by(Responder& r, packet::Way way) {
  const bool known = std::exchange(r.way_known, true);
  return std::exchange(r.way, way) != way || !known;
}

/// The next request may come another way.
inline void forget_way(Responder& r) { r.way_known = false; }

/// A request has just left. The acknowledgement leaves with it, because from now on the queue pair
/// awaits one itself.
void note_request_sent(Responder& r, Instant now);

/// No request will leave that the acknowledgement could leave with.
inline void acknowledge_now(Responder& r) { r.answer_by = Instant{}; }

/// Without any, transmit_responses() finds nothing to do.
[[nodiscard]] inline bool has_responses(const Responder& r) {
  return r.answer || !r.responses.empty() || r.waiting_until != kNever || !r.marks.empty() ||
         r.congested;
}

/// The program ended the service: what was not sent yet is not sent.
void drop_answers(Responder& r);

/// An XRC receive queue goes. True: it takes the receive that is being filled with it.
[[nodiscard]] bool forget_srq(Responder& r, const SharedReceiveQueue& srq);

/// When expire() has something to do.
[[nodiscard]] inline Instant deadline(const Responder& r) { return r.waiting_until; }
inline void expire(Responder& r) { r.waiting_until = kNever; }

}  // namespace verbena::engine
