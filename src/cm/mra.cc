#include "cm/mra.h"

#include "cm/timing.h"

namespace verbena::cm {
namespace {

using packet::CmAnswered;

void send_mra(Core& core, const Connection& c, CmAnswered message) {
  core.send(c.route, c.transaction,
            packet::CmMra{.local_id = c.local_id,
                          .remote_id = c.remote_id,
                          .message = message,
                          .service_timeout = kLongestTimeout});
}

}  // namespace

void on_mra(Core& core, const Received& r, const packet::CmMra& m) {
  Connection* const c = core.table.find(m.remote_id);
  if (c == nullptr) {
    ++core.counters.drop_unknown_id;
    return;
  }
  if (c->route.remote != r.route.remote) {
    ++core.counters.drop_source;
    return;
  }
  const bool awaited =
      (c->state == State::req_sent && m.message == CmAnswered::req) ||
      (c->state == State::rep_sent && m.message == CmAnswered::rep && m.local_id == c->remote_id);
  if (!awaited || c->pending.peer_is_busy) {
    ++core.counters.rx_duplicates[packet::CmAttribute::mra];
    return;
  }
  c->pending.peer_is_busy = true;
  c->pending.retries.postpone(r.now,
                              bounded(m.service_timeout.duration() + c->ack_timeout.duration()));
  core.reschedule(*c);
}

void send_mra_to_req(Core& core, Connection& c, Instant now) {
  send_mra(core, c, CmAnswered::req);
  const Duration interval = kLongestWait + c.ack_timeout.duration();
  c.request_over = now + request_span(interval, c.max_retries);
}

void send_mra_to_rep(Core& core, const Connection& c) { send_mra(core, c, CmAnswered::rep); }

}  // namespace verbena::cm
