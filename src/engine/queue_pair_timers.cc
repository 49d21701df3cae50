#include "engine/queue_pair_timers.h"

#include <algorithm>

#include "engine/queue_pair.h"

namespace verbena::engine {

Instant next_deadline(const QueuePair& qp) {
  return std::min({deadline(qp.completer), deadline(qp.requester), deadline(qp.responder)});
}

void expire(Services& services, QueuePair& qp, const packet::FrameSink& sink, Instant now) {
  expire(qp.requester, now);
  expire(qp.responder);
  const bool lost = now >= qp.completer.early_at;  // with its ring
  const bool overdue = now >= qp.completer.timeout_at && !lost;
  if (overdue && goes_by_rings(qp) && waits_for_peer(qp, passage_to_peer(qp, sink), now)) return;
  expire_retry_timers(services, qp, now);
}

void stop_request_timers(QueuePair& qp) {
  stop_timers(qp.completer);
  stop_waiting(qp.requester);
}

}  // namespace verbena::engine
