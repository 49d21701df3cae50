#include "cm/peer_death.h"

#include "cm/timewait.h"

namespace verbena::cm {

Connection* find_peer_of(const Core& core, const ConnectionRecord& record) {
  Connection* const c = core.table.find(record.remote_id);
  const bool its_peer = c != nullptr && c->remote_id == record.local_id &&
                        c->route.local == record.route.remote &&
                        c->route.remote == record.route.local && c->local.qpn == record.remote_qpn;
  if (!its_peer) return nullptr;
  switch (c->state) {
    case State::rep_sent:
    case State::established:
    case State::dreq_sent:
    case State::dreq_rcvd:
    case State::timewait:
      return c;
    case State::req_sent:
    case State::rep_rcvd:  // the owner is about to establish it
    case State::req_rcvd:
      return nullptr;
  }
  return nullptr;
}

void peer_died(Core& core, Connection& c, Instant now) {
  switch (c.state) {
    case State::rep_sent:
    case State::established:
      core.stop_waiting(c);
      c.state = State::dreq_rcvd;
      return core.tell(c, {.kind = EventKind::disconnected});
    case State::dreq_sent:
      core.tell(c, {.kind = EventKind::disconnected});
      return enter_timewait(core, c, now);
    case State::req_sent:
    case State::rep_rcvd:
    case State::req_rcvd:
    case State::dreq_rcvd:
    case State::timewait:
      return;
  }
}

}  // namespace verbena::cm
