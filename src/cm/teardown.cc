#include "cm/teardown.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/bytes.h"
#include "cm/timing.h"

namespace verbena::cm {
namespace {

using packet::CmAnswered;
using packet::CmAttribute;
using packet::RejectReason;

std::array<std::uint8_t, 8> guid_bytes(std::uint64_t guid) {
  std::array<std::uint8_t, 8> out{};
  store_be64(out.data(), guid);
  return out;
}

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

void send_drep(Core& core, const Connection& c, const PrivateData& private_data = {}) {
  core.send(c.route, c.dreq_transaction.value_or(0),
            packet::CmDrep{
                .local_id = c.local_id,
                .remote_id = c.remote_id,
                .private_data = filled_up<packet::CmDrep::kPrivateSize>(private_data),
            });
}

/// Gives up what the peer never answered. It may hear of it all the same.
void give_up(Core& core, Connection& c) {
  const auto guid = guid_bytes(c.local_guid);
  const OutgoingMad rej = core.reject(c, CmAnswered::other, RejectReason::timeout, guid);
  if (c.remote_id.known()) core.remember(c, rej);
}

void time_out(Core& core, Connection& c, Instant now) {
  ++core.counters.timeouts;
  if (c.state == State::dreq_sent) {
    core.tell(c, {.kind = EventKind::disconnected, .status = -ETIMEDOUT});
    return core.enter_timewait(c, now);
  }
  give_up(core, c);
  core.tell(c, {.kind = EventKind::unreachable, .status = -ETIMEDOUT});
  core.remove(c);
}

/// A REJ with reason "timeout" comes from a peer that may not know our id: it names its own, and
/// in the additional info its GUID (IBA 12.6.7.2).
Connection* find_taken_back(Core& core, const Received& r, const packet::CmRej& m) {
  if (m.reason != RejectReason::timeout || m.info_length < 8) return nullptr;
  return core.table.find_request(r.route.remote, m.local_id, load_be64(m.info.data()));
}

/// A REJ of our REQ may come from somebody who has no id for the connection.
Connection* find_rejected(Core& core, const Received& r, const packet::CmRej& m) {
  if (!m.remote_id.known()) return find_taken_back(core, r, m);
  Connection* const c = core.table.find(m.remote_id);
  if (c == nullptr) return nullptr;
  const bool from_peer =
      c->route.remote == r.route.remote && (!c->remote_id.known() || m.local_id == c->remote_id);
  return from_peer ? c : nullptr;
}

Event rejected_event(const packet::CmRej& m) {
  const auto info = std::min<std::size_t>(m.info_length, m.info.size());
  return {.kind = EventKind::rejected,
          .status = static_cast<int>(m.reason),
          .private_data = {m.private_data.begin(), m.private_data.end()},
          .additional_info = {m.info.begin(), m.info.begin() + static_cast<std::ptrdiff_t>(info)}};
}

/// Whether the REQ is repeated although it was refused.
bool asks_again(Core& core, Connection& c, const packet::CmRej& m, Instant now) {
  if (m.reason != RejectReason::invalid_service_id) return false;
  const auto soon = c.pending.unserved.again(now);
  if (!soon) return false;
  c.pending.repetitions.ask(*soon);
  core.reschedule(c);
  return true;
}

/// Nothing but messages was exchanged so far.
void end_rejected_request(Core& core, Connection& c, const packet::CmRej& m) {
  core.tell(c, rejected_event(m));
  if (c.state != State::req_sent) {
    // Its REQ may come once more, late; that is not a new one.
    const packet::CmRej rej{.local_id = c.local_id,
                            .remote_id = c.remote_id,
                            .message = CmAnswered::req,
                            .reason = RejectReason::consumer};
    core.remember(c, {c.route, packet::encode_cm({c.transaction, rej})});
  }
  core.remove(c);
}

/// A good-bye makes sense: the connection is there, for its peer at least, or was.
bool may_end(State s) {
  return s != State::req_sent && s != State::rep_rcvd && s != State::req_rcvd;
}

void issue_drep(Core& core, const Received& r, const packet::CmDreq& m) {
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
  core.enter_timewait(c, now);
}

}  // namespace

Connection* find_for(Core& core, const Received& r, packet::CommId local_id,
                     packet::CommId remote_id) {
  Connection* const c = core.table.find(local_id);
  if (c == nullptr || c->remote_id != remote_id) {
    ++core.counters.drop_unknown_id;
    return nullptr;
  }
  if (c->route.remote != r.route.remote) {
    ++core.counters.drop_source;
    return nullptr;
  }
  return c;
}

Status reject(Core& core, Connection& c, const RejectParameters& p) {
  const bool answers_req = c.state == State::req_rcvd;
  if (!answers_req && c.state != State::rep_rcvd) {
    return wrong_state("reject", c, "req_rcvd or rep_rcvd");
  }
  if (auto fits =
          check_size("reject", "private data", p.private_data.size(), packet::CmRej::kPrivateSize);
      !fits) {
    return fits;
  }
  if (auto fits = check_size("reject", "additional information", p.additional_info.size(),
                             packet::CmAdditionalInfo{}.size());
      !fits) {
    return fits;
  }
  const OutgoingMad rej = core.reject(c, answers_req ? CmAnswered::req : CmAnswered::rep, p.reason,
                                      p.additional_info, p.private_data);
  if (answers_req) core.remember(c, rej);
  core.remove(c);
  return Ok{};
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
    core.enter_timewait(c, now);
  } else {
    send_dreq(core, c, private_data, now);
  }
  return Ok{};
}

void destroy(Core& core, Connection& c, Instant now) {
  c.owned = false;
  core.leave_backlog(c);
  switch (c.state) {
    case State::req_sent:
      give_up(core, c);
      return core.remove(c);
    case State::req_rcvd:
      core.remember(c, core.reject(c, CmAnswered::req, RejectReason::consumer));
      return core.remove(c);
    case State::rep_sent:
      core.remember(c, core.reject(c, CmAnswered::other, RejectReason::consumer));
      return core.remove(c);
    case State::rep_rcvd:
      core.reject(c, CmAnswered::rep, RejectReason::consumer);
      return core.remove(c);
    case State::established:
      return send_dreq(core, c, {}, now);
    case State::dreq_rcvd:
      send_drep(core, c);
      return core.enter_timewait(c, now);
    case State::dreq_sent:
    case State::timewait:
      return;
  }
}

void drop_stale(Core& core, Connection& c, Instant now) {
  if (c.state == State::established) send_dreq(core, c, {}, now);
}

void on_rej(Core& core, const Received& r, const packet::CmRej& m) {
  Connection* const c = find_rejected(core, r, m);
  if (c == nullptr) {
    ++core.counters.drop_unknown_id;
    return;
  }
  switch (c->state) {
    case State::req_sent:
      if (asks_again(core, *c, m, r.now)) return;
      return end_rejected_request(core, *c, m);
    case State::req_rcvd:
    case State::rep_sent:
      return end_rejected_request(core, *c, m);
    case State::rep_rcvd:
    case State::established:
      core.tell(*c, rejected_event(m));
      return core.enter_timewait(*c, r.now);
    case State::dreq_sent:
      core.tell(*c, {.kind = EventKind::disconnected});
      return core.enter_timewait(*c, r.now);
    case State::dreq_rcvd:
    case State::timewait:
      ++core.counters.drop_state;
      return;
  }
}

void on_dreq(Core& core, const Received& r, const packet::CmDreq& m) {
  Connection* const c = core.table.find(m.remote_id);
  if (c == nullptr || c->remote_id != m.local_id) {
    // Who has forgotten a connection agrees to its end, or the peer would ask in vain.
    ++core.counters.drop_unknown_id;
    return issue_drep(core, r, m);
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
  Connection* const c = find_for(core, r, m.remote_id, m.local_id);
  if (c == nullptr) return;
  if (c->state != State::dreq_sent) {
    ++core.counters.rx_duplicates[CmAttribute::drep];
    return;
  }
  core.tell(*c, {.kind = EventKind::disconnected,
                 .private_data = {m.private_data.begin(), m.private_data.end()}});
  core.enter_timewait(*c, r.now);
}

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
    ++core.counters.rx_duplicates[CmAttribute::mra];
    return;
  }
  c->pending.peer_is_busy = true;
  c->pending.repetitions.wait_longer(
      r.now, bounded(m.service_timeout.duration() + c->ack_timeout.duration()));
  core.reschedule(*c);
}

void goodbye_undelivered(Core& core, Connection& c, const IncomingMad& mad, Instant now) {
  if (c.state != State::dreq_sent || !is_ours({c.route, c.pending.mad}, mad)) {
    ++core.counters.drop_undelivered;
    return;
  }
  if (const auto soon = c.pending.unheard.again(now)) {
    c.pending.repetitions.ask(now + *soon);
    return core.reschedule(c);
  }
  ++core.counters.unheard;
  time_out(core, c, now);
}

void answer_goodbyes_again(Core& core) {
  constexpr std::size_t kMost = 1024;  // a burst that a network may be trusted with
  auto gone = core.table.all(State::timewait);
  std::erase_if(gone, [](const Connection* c) { return !c->dreq_transaction; });
  if (gone.size() > kMost) gone.resize(kMost);
  for (const Connection* c : gone) send_drep(core, *c);
}

void on_deadline(Core& core, Connection& c, Instant now) {
  if (c.state == State::timewait) {
    core.tell(c, {.kind = EventKind::timewait_exit});
    return core.remove(c);
  }
  if (!c.pending.repetitions.again(now)) return time_out(core, c, now);
  core.resend({c.route, c.pending.mad});
  core.reschedule(c);
}

}  // namespace verbena::cm
