#pragma once

// Turns send requests into packets (IBA 9.7.2 … 9.7.4, requester side).

#include <cstdint>
#include <optional>
#include <vector>

#include "base/psn.h"
#include "base/ring.h"
#include "base/time.h"
#include "engine/completion.h"
#include "packet/frame.h"

namespace verbena::engine {

struct QueuePair;
struct Services;

struct Requester {
  // The cursor: what leaves next. Moves back on a loss.
  std::uint64_t wqe = 0;
  std::uint32_t packet = 0;
  Psn psn{};

  Psn end{};                            // one past the highest PSN that ever left
  std::uint32_t since_ack_request = 0;  // truesize
  Ring<Psn> answered;       // last PSN of each outstanding request that has a response of its own
  std::vector<Psn> asked;   // the same, with those that are to be asked for again
  std::vector<Psn> pieces;  // last PSNs of what has been asked for again
  std::optional<CompletionStatus> fault;  // the packet at the cursor can't be built
  Instant wait_until{};                   // the peer said "not ready"; {}: it didn't
  packet::Course course{};                // of packets; changes when none is on its way
};

/// Requests that are acknowledged leave by a ring.
[[nodiscard]] bool goes_by_rings(const QueuePair& qp);
/// How far that ring has come.
[[nodiscard]] packet::Passage passage_to_peer(const QueuePair& qp, const packet::FrameSink& sink);

/// stalled: its path has no room, or there is no memory; later there may be.
enum class Sent : std::uint8_t { all, more, stalled };

/// Without any, transmit_requests() finds nothing to do.
[[nodiscard]] bool has_requests(const QueuePair& qp);
/// Sends what the window lets, at most `budget` packets.
[[nodiscard]] Sent transmit_requests(Services& services, QueuePair& qp, packet::FrameSink& sink,
                                     unsigned budget, Instant now);

/// The next packet to leave is `psn`: on a loss (back), or because all before it is
/// acknowledged (forth).
void move_cursor(QueuePair& qp, Psn psn);

/// Everything that was begun is complete (SQD waits for that).
[[nodiscard]] bool drained(const QueuePair& qp);

// What the other parts of the queue pair tell the requester.

/// To RTS: the first request has this PSN.
inline void begin(Requester& r, Psn first) { r.psn = r.end = first; }

/// Everything before `unacked` is acknowledged.
void note_acknowledged(Requester& r, Psn unacked);

/// The request at the cursor left as a whole, by another way than transmit_requests().
inline void skip_request(Requester& r) { ++r.wqe; }

/// All requests were flushed.
void forget_requests(QueuePair& qp);

/// The peer has no receive yet: sends nothing before `when`.
inline void wait_until(Requester& r, Instant when) { r.wait_until = when; }
[[nodiscard]] inline bool is_waiting(const Requester& r, Instant now) { return now < r.wait_until; }
inline void stop_waiting(Requester& r) { r.wait_until = Instant{}; }

/// When expire() has something to do.
[[nodiscard]] inline Instant deadline(const Requester& r) {
  return r.wait_until > Instant{} ? r.wait_until : kNever;
}
inline void expire(Requester& r, Instant now) {
  if (!is_waiting(r, now)) stop_waiting(r);
}

}  // namespace verbena::engine
