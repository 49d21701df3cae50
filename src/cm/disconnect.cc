#include "cm/disconnect.h"

#include <cstddef>
#include <vector>

#include "cm/timewait.h"

namespace verbena::cm {
namespace {

using packet::CmAttribute;

/// The peer takes the connection for established, or did.
bool may_end(State s) {
  return s != State::req_sent && s != State::rep_rcvd && s != State::req_rcvd;
}

void send_drep_for_unknown(Core& core, const Received& r, const packet::CmDreq& m) {
  core.send(r.route, r.transaction,
            packet::CmDrep{.local_id = m.remote_id, .remote_id = m.local_id});
}

void peer_disconnects(Core& core, Connection& c, const packet::CmDreq& m) {
  core.stop_waiting(c);
  c.state = State::dreq_rcvd;
  core.tell(c, {.kind = EventKind::disconnected,
                .private_data = {m.private_data.begin(), m.private_data.end()}});
}

void both_disconnect(Core& core, Connection& c, const packet::CmDreq& m, Instant now) {
  send_drep(core, c);
  core.tell(c, {.kind = EventKind::disconnected,
                .private_data = {m.private_data.begin(), m.private_data.end()}});
  enter_timewait(core, c, now);
}

}  // namespace

void send_dreq(Core& core, Connection& c, const PrivateData& private_data, Instant now) {
  const packet::CmDreq dreq{
      .local_id = c.local_id,
      .remote_id = c.remote_id,
      .remote_qpn = c.peer.qpn,
      .private_data = filled_up<packet::CmDreq::kPrivateSize>(private_data),
  };
  c.state = State::dreq_sent;
  core.send_and_wait(c, c.local_id.value(), dreq, now);
}

void send_drep(Core& core, const Connection& c, const PrivateData& private_data) {
  if (!c.dreq_transaction) return;  // the peer was killed (peer_death.h)
  core.send(c.route, *c.dreq_transaction,
            packet::CmDrep{
                .local_id = c.local_id,
                .remote_id = c.remote_id,
                .private_data = filled_up<packet::CmDrep::kPrivateSize>(private_data),
            });
}

Status disconnect(Core& core, Connection& c, const PrivateData& private_data, Instant now) {
  const bool answers = c.state == State::dreq_rcvd;
  if (!answers && c.state != State::established) {
    return wrong_state("disconnect", c, "established or dreq_rcvd");
  }
  if (auto fits = check_size("disconnect", "private data", private_data.size(),
                             answers ? packet::CmDrep::kPrivateSize : packet::CmDreq::kPrivateSize);
      !fits) {
    return fits;
  }
  if (answers) {
    send_drep(core, c, private_data);
    enter_timewait(core, c, now);
  } else {
    send_dreq(core, c, private_data, now);
  }
  return Ok{};
}

void on_dreq(Core& core, const Received& r, const packet::CmDreq& m) {
  Connection* const c = core.table.find(m.remote_id);
  if (c == nullptr || c->remote_id != m.local_id) {
    // We have forgotten the connection. Agree to its end, or the peer would retry in vain.
    ++core.counters.drop_unknown_id;
    return send_drep_for_unknown(core, r, m);
  }
  if (c->route.remote != r.route.remote) {
    ++core.counters.drop_source;
    return;
  }
  if (m.remote_qpn != c->local.qpn) {
    ++core.counters.drop_unknown_id;
    return;
  }
  if (!may_end(c->state)) {
    ++core.counters.drop_state;
    return;
  }
  c->dreq_transaction = r.transaction;
  if (c->state == State::dreq_sent) return both_disconnect(core, *c, m, r.now);
  if (c->state != State::timewait && c->state != State::dreq_rcvd) {
    return peer_disconnects(core, *c, m);
  }
  ++core.counters.rx_duplicates[CmAttribute::dreq];
  if (c->state == State::timewait) send_drep(core, *c);
}

void on_drep(Core& core, const Received& r, const packet::CmDrep& m) {
  Connection* const c = find_connection(core, r, m.remote_id, m.local_id);
  if (c == nullptr) return;
  if (c->state != State::dreq_sent) {
    ++core.counters.rx_duplicates[CmAttribute::drep];
    return;
  }
  core.tell(*c, {.kind = EventKind::disconnected,
                 .private_data = {m.private_data.begin(), m.private_data.end()}});
  enter_timewait(core, *c, r.now);
}

void disconnect_stale(Core& core, Connection& c, Instant now) {
  if (c.state == State::established) send_dreq(core, c, {}, now);
}

void resend_dreps(Core& core) {
  constexpr std::size_t kMost = 1024;  // limits the burst
  auto answered = core.table.all(State::timewait);
  std::erase_if(answered, [](const Connection* c) { return !c->dreq_transaction; });
  if (answered.size() > kMost) answered.resize(kMost);
  for (const Connection* c : answered) send_drep(core, *c);
}

}  // namespace verbena::cm
