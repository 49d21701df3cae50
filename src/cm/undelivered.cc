#include "cm/undelivered.h"

#include "cm/retry.h"

namespace verbena::cm {
namespace {

/// False: enough reports came, the message is given up.
bool retry_soon(Core& core, Connection& c, Instant now) {
  const auto delay = c.pending.undelivered.next_delay(now);
  if (!delay) {
    ++core.counters.undelivered;
    return false;
  }
  c.pending.retries.add_extra(now + *delay);
  core.reschedule(c);
  return true;
}

}  // namespace

void req_undelivered(Core& core, Connection& c, const IncomingMad& mad, int code, Instant now) {
  const bool waits = c.state == State::req_sent && !c.pending.peer_is_busy;
  if (!waits || !is_returned({c.route, c.pending.mad}, mad)) {
    ++core.counters.drop_undelivered;
    return;
  }
  if (retry_soon(core, c, now)) return;
  core.tell(c, {.kind = EventKind::unreachable, .status = -code});
  core.remove(c);
}

void dreq_undelivered(Core& core, Connection& c, const IncomingMad& mad, Instant now) {
  if (c.state != State::dreq_sent || !is_returned({c.route, c.pending.mad}, mad)) {
    ++core.counters.drop_undelivered;
    return;
  }
  if (!retry_soon(core, c, now)) time_out(core, c, now);
}

}  // namespace verbena::cm
