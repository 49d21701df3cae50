#pragma once

// Takes what comes back for our requests: acknowledgements, NAKs, READ responses; retries,
// and completes (IBA 9.7.5, requester side).

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/psn.h"
#include "base/time.h"
#include "engine/credits.h"
#include "engine/peer_liveness.h"
#include "engine/round_trip.h"
#include "engine/window.h"
#include "packet/frame.h"
#include "packet/packet.h"

namespace verbena::engine {

struct QpAttributes;
struct QueuePair;
struct SendWqe;
struct Services;

/// An answer was overdue, and what is unacknowledged is sent again.
struct Overdue {
  Psn from;
  Psn end;  // one past what had left
  Window::Size before;
  Instant asked_again_at{};
  bool answered = false;  // some of it, since
};

struct Completer {
  Psn unacked{};  // the oldest PSN that nothing has answered
  Window window{};
  RoundTrip round_trip{};
  Credits credits{};

  std::uint8_t retries_left = 0;
  std::uint8_t rnr_retries_left = 0;
  std::optional<Psn> gap;  // a hole in READ responses that we have asked again for

  Instant timeout_at = kNever;  // the transport timer of IBA 9.7.6.1.3
  Instant early_at = kNever;    // our own, sooner: an answer is overdue, try again for free
  Duration early_timeout{};
  std::optional<Overdue> overdue;  // the last one, until it proves to have been late, not lost
  PeerLiveness peer{};             // of one that requests go to by a ring
};

/// Truesize of one packet of the request, or of its response: what it takes of the window.
[[nodiscard]] std::uint32_t packet_cost(const QueuePair& qp, const SendWqe& wqe);

/// The requester sends what stands at its cursor: this many packets, of the request or of the
/// response that it asks for.
void note_sent(QueuePair& qp, const SendWqe& wqe, std::uint32_t packets, Instant now);

/// The requester sent or did something that nobody will answer: it completes at once if nothing
/// before it is outstanding.
void note_gone(Services& services, QueuePair& qp);

/// An ACKNOWLEDGE or READ response for this queue pair.
void handle_response(Services& services, QueuePair& qp, const packet::Packet& p, Instant now);

/// The memory for what a READ brought, and which is acknowledged in part, is gone.
void fail_unplaced_response(Services& services, QueuePair& qp);

/// The network says that it is congested: a smaller window, at most once a round trip.
void slow_down(QueuePair& qp);

/// To RTS.
void begin(Completer& c, const QpAttributes& attributes);
/// Requests take this way from now on; none is on its way.
void change_way(Completer& c, const QpAttributes& attributes, packet::Way way);

/// What left by rings is lost, and is sent again at once. False: there is nothing like that.
bool ask_again(QueuePair& qp, Instant now);

/// The path has no room. With nothing of its own under way, the queue pair waits as long as for an
/// answer: anew whenever the peer takes something, else until the retries are over.
void note_held_back(QueuePair& qp, const packet::Passage& passage, Instant now);
/// The transport timer has expired. True: the peer is only slow, and it begins anew; that is no
/// retry.
[[nodiscard]] bool waits_for_peer(QueuePair& qp, const packet::Passage& passage, Instant now);

void stop_timers(Completer& c);
/// When expire_retry_timers() has something to do.
[[nodiscard]] inline Instant deadline(const Completer& c) {
  return std::min(c.timeout_at, c.early_at);
}
/// An answer is overdue: sends again, or gives up.
void expire_retry_timers(Services& services, QueuePair& qp, Instant now);

}  // namespace verbena::engine
