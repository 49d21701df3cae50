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
  Ring<Psn> answered;      // last PSN of each outstanding request that has a response of its own
  std::vector<Psn> asked;  // the same, with those that are to be asked for again
  std::optional<CompletionStatus> fault;  // the packet at the cursor can't be built
  Instant wait_until{};                   // the peer said "not ready"; {}: it didn't
};

/// sink_full: or there is no memory; in either case later there may be.
enum class Sent : std::uint8_t { all, more, sink_full };

/// Sends what the window lets, at most `budget` packets.
[[nodiscard]] Sent transmit_requests(Services& services, QueuePair& qp, packet::FrameSink& sink,
                                     unsigned budget, Instant now);

/// The next packet to leave is `psn`: on a loss (back), or because all before it is
/// acknowledged (forth).
void move_cursor(QueuePair& qp, Psn psn);

/// Everything that was begun is complete (SQD waits for that).
[[nodiscard]] bool drained(QueuePair& qp);

/// Goes on after an RNR NAK if its time has come.
inline void end_wait(Requester& r, Instant now) {
  if (now >= r.wait_until) r.wait_until = Instant{};
}

}  // namespace verbena::engine
