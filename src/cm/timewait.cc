#include "cm/timewait.h"

#include "cm/timing.h"

namespace verbena::cm {

void enter_timewait(Core& core, Connection& c, Instant now) {
  c.state = State::timewait;
  if (core.records != nullptr) core.records->withdraw(c.local_id);
  core.table.release_remote_qpn(c);
  core.table.set_deadline(c, now + bounded(c.ack_timeout.duration()));
}

void leave_timewait(Core& core, Connection& c) {
  core.tell(c, {.kind = EventKind::timewait_exit});
  core.remove(c);
}

}  // namespace verbena::cm
