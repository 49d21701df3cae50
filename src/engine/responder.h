#pragma once

// Serves the peer's requests (IBA 9.7.3 … 9.7.5, responder side): a chain of small checks,
// each of which may refuse; then execution; then at most one answer for many requests.
//
//   psn == expected : check, execute, acknowledge if asked
//   psn older       : a duplicate: acknowledge again, never execute again (READ: read again)
//   psn newer       : one NAK, then silence until the gap is filled

#include <cstdint>
#include <optional>

#include "base/numbers.h"
#include "base/psn.h"
#include "base/ring.h"
#include "base/time.h"
#include "engine/conversation.h"
#include "engine/memory.h"
#include "engine/receive_queue.h"
#include "engine/requester.h"
#include "packet/aeth.h"
#include "packet/opcode.h"
#include "packet/packet.h"

namespace verbena::engine {

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
  Conversation conversation{};
  Instant answer_by{};            // an ACK may wait until then for a request to leave with
  Instant waiting_until{kNever};  // it does; kNever: none waits

  Ring<ReachedMark> marks{};  // UC, UD: to be answered

  bool congested = false;  // a packet came marked: tell the sender
  Instant next_notice{};   // not before then

  Ring<SavedAtomic> atomics{};  // the newest max_dest_rd_atomic
};

/// What serving this request may need. False: there is no memory, and it can't be taken.
[[nodiscard]] bool make_room(const Services& services, QueuePair& qp,
                             const packet::Packet& request);

/// A request to an RC or XRC queue pair.
void handle_request(Services& services, QueuePair& qp, const packet::Packet& p);

/// The memory for what a message brought so far is gone. Its newest packet is the one that gets
/// the NAK.
void refuse_unplaced(Services& services, QueuePair& qp);

/// A packet came with "congestion experienced" on it: its sender is told, but not too often
/// (IBA annex A17.9.3).
void note_congestion(Responder& r, Instant now);

/// The queue pair is about to go, or to serve no more. The peer may still wait for an ACK that the
/// network lost, and nobody will be here to repeat it: so it is repeated now.
void transmit_farewell(Services& services, QueuePair& qp, packet::FrameSink& sink);

/// A request has just left: the answer leaves with it.
void answer_with_request(Responder& r, Instant now);

/// Sends responses and the answer if it is due, at most `budget` packets.
[[nodiscard]] Sent transmit_responses(Services& services, QueuePair& qp, packet::FrameSink& sink,
                                      unsigned budget);

}  // namespace verbena::engine
