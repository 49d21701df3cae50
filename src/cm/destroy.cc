#include "cm/destroy.h"

#include "cm/disconnect.h"
#include "cm/rej.h"
#include "cm/retry.h"
#include "cm/timewait.h"

namespace verbena::cm {

void destroy(Core& core, Connection& c, Instant now) {
  using packet::CmAnswered;
  using packet::RejectReason;
  c.owned = false;
  core.leave_backlog(c);
  switch (c.state) {
    case State::req_sent:
      reject_for_timeout(core, c);
      return core.remove(c);
    case State::req_rcvd:
      core.remember(c, send_rej(core, c, CmAnswered::req, RejectReason::consumer));
      return core.remove(c);
    case State::rep_sent:
      core.remember(c, send_rej(core, c, CmAnswered::other, RejectReason::consumer));
      return core.remove(c);
    case State::rep_rcvd:
      send_rej(core, c, CmAnswered::rep, RejectReason::consumer);
      return core.remove(c);
    case State::established:
      return send_dreq(core, c, {}, now);
    case State::dreq_rcvd:
      send_drep(core, c);
      return enter_timewait(core, c, now);
    case State::dreq_sent:
    case State::timewait:
      return;
  }
}

}  // namespace verbena::cm
