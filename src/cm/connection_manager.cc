#include "cm/connection_manager.h"

#include <algorithm>
#include <variant>

#include "cm/active.h"
#include "cm/destroy.h"
#include "cm/disconnect.h"
#include "cm/mra.h"
#include "cm/passive.h"
#include "cm/peer_death.h"
#include "cm/rej.h"
#include "cm/retry.h"
#include "cm/timewait.h"
#include "cm/undelivered.h"
#include "packet/cm_mad.h"

namespace verbena::cm {
namespace {

/// Alternate paths need path migration, which RoCE doesn't have.
void on_lap(Core& core, const Received& r, const packet::CmLap& m) {
  const Connection* const c = find_connection(core, r, m.remote_id, m.local_id);
  core.send(r.route, r.transaction,
            packet::CmApr{.local_id = m.remote_id,
                          .remote_id = m.local_id,
                          .status = c != nullptr ? packet::AprStatus::unsupported
                                                 : packet::AprStatus::invalid_comm_id});
}

void on_deadline(Core& core, Connection& c, Instant now) {
  if (c.state == State::timewait) return leave_timewait(core, c);
  retry_or_give_up(core, c, now);
}

bool has_offer(State s) { return s != State::req_sent; }

struct Dispatch {
  Core& core;
  Sidr& sidr;
  const Received& r;

  void operator()(const packet::CmReq& m) const { on_req(core, r, m); }
  void operator()(const packet::CmMra& m) const { on_mra(core, r, m); }
  void operator()(const packet::CmRej& m) const { on_rej(core, r, m); }
  void operator()(const packet::CmRep& m) const { on_rep(core, r, m); }
  void operator()(const packet::CmRtu& m) const { on_rtu(core, r, m); }
  void operator()(const packet::CmDreq& m) const { on_dreq(core, r, m); }
  void operator()(const packet::CmDrep& m) const { on_drep(core, r, m); }
  void operator()(const packet::CmSidrReq& m) const { sidr.on_sidr_req(r, m); }
  void operator()(const packet::CmSidrRep& m) const { sidr.on_sidr_rep(r, m); }
  void operator()(const packet::CmLap& m) const { on_lap(core, r, m); }
  void operator()(const packet::CmApr&) const { ++core.counters.drop_state; }  // we send no LAP
};

}  // namespace

Result<ConnectionId> ConnectionManager::connect(const ConnectParameters& p, Instant now) {
  return cm::connect(core_, p, now);
}

Status ConnectionManager::establish(ConnectionId id, const PrivateData& private_data) {
  Connection* const c = core_.table.find(id);
  if (c == nullptr) return no_such_connection("establish", id);
  return cm::establish(core_, *c, private_data);
}

Status ConnectionManager::accept(ConnectionId id, const AcceptParameters& p, Instant now) {
  Connection* const c = core_.table.find(id);
  if (c == nullptr) return no_such_connection("accept", id);
  return cm::accept(core_, *c, p, now);
}

Status ConnectionManager::reject(ConnectionId id, const RejectParameters& p) {
  Connection* const c = core_.table.find(id);
  if (c == nullptr) return no_such_connection("reject", id);
  return cm::reject(core_, *c, p);
}

Status ConnectionManager::disconnect(ConnectionId id, const PrivateData& private_data,
                                     Instant now) {
  Connection* const c = core_.table.find(id);
  if (c == nullptr) return no_such_connection("disconnect", id);
  return cm::disconnect(core_, *c, private_data, now);
}

Status ConnectionManager::notify_established(ConnectionId id) {
  Connection* const c = core_.table.find(id);
  if (c == nullptr) return no_such_connection("notify_established", id);
  return cm::notify_established(core_, *c);
}

void ConnectionManager::destroy(ConnectionId id, Instant now) {
  if (Connection* const c = core_.table.find(id)) {
    if (c->owned) cm::destroy(core_, *c, now);
  } else if (sidr_.has(id)) {
    sidr_.destroy(id);
  }
}

void ConnectionManager::resend_dreps() { cm::resend_dreps(core_); }

void ConnectionManager::taken(ConnectionId id) {
  if (Connection* const c = core_.table.find(id)) {
    core_.leave_backlog(*c);
  } else if (sidr_.has(id)) {
    sidr_.taken(id);
  }
}

Status ConnectionManager::sidr_reply(ConnectionId id, const SidrReplyParameters& p) {
  if (!sidr_.has(id)) return no_such_connection("sidr_reply", id);
  return sidr_.reply(id, p);
}

std::optional<QpParameters> ConnectionManager::qp_parameters(ConnectionId id) const {
  const Connection* const c = core_.table.find(id);
  if (c == nullptr || !has_offer(c->state)) return std::nullopt;
  return QpParameters{.remote_qpn = c->peer.qpn,
                      .local = c->route.local,
                      .remote = c->route.remote,
                      .rq_psn = c->local.starting_psn,
                      .sq_psn = c->peer.starting_psn,
                      .mtu = c->peer.mtu,
                      .max_dest_rd_atomic = c->responder_resources(),
                      .max_rd_atomic = c->initiator_depth(),
                      .timeout = c->ack_timeout,
                      .retry_count = c->peer.retry_count,
                      .rnr_retry_count = c->peer.rnr_retry_count,
                      .traffic_class = c->traffic_class,
                      .hop_limit = c->hop_limit,
                      .flow_label = c->flow_label};
}

bool ConnectionManager::is_peer(const ConnectionRecord& record) const {
  return find_peer_of(core_, record) != nullptr;
}

void ConnectionManager::peer_died(const ConnectionRecord& record, Instant now) {
  if (Connection* const c = find_peer_of(core_, record)) cm::peer_died(core_, *c, now);
}

std::optional<State> ConnectionManager::state(ConnectionId id) const {
  const Connection* const c = core_.table.find(id);
  if (c == nullptr) return std::nullopt;
  return c->state;
}

void ConnectionManager::receive(const IncomingMad& mad, Instant now) {
  const auto decoded = packet::decode_cm(mad.bytes);
  if (const auto* reason = std::get_if<packet::CmMalformed>(&decoded)) {
    ++core_.counters.drop_malformed[static_cast<std::size_t>(*reason)];
    return;
  }
  const auto& good = std::get<packet::CmMad>(decoded);
  ++core_.counters.rx_msgs[packet::attribute_of(good.message)];
  if (!mad.orphaned && !is_for_us(good.message)) {
    ++core_.counters.drop_other_slot;
    return;
  }
  const Received r{mad.route, good.transaction, now};
  if (!ends_orphan(r, good.message)) dispatch(r, good.message);
}

void ConnectionManager::undelivered(const IncomingMad& mad, int code, Instant now) {
  const auto decoded = packet::decode_cm(mad.bytes);
  const auto* good = std::get_if<packet::CmMad>(&decoded);
  if (good == nullptr) return;
  if (const auto* req = std::get_if<packet::CmReq>(&good->message)) {
    if (Connection* const c = core_.table.find(req->local_id)) {
      req_undelivered(core_, *c, mad, code, now);
    }
  } else if (const auto* dreq = std::get_if<packet::CmDreq>(&good->message)) {
    Connection* const c = core_.table.find(dreq->local_id);
    if (c != nullptr) dreq_undelivered(core_, *c, mad, now);
    if (c == nullptr) orphans_.undelivered(dreq->local_id, mad, now);
  } else if (const auto* sidr_req = std::get_if<packet::CmSidrReq>(&good->message)) {
    sidr_.on_undelivered(sidr_req->request_id, mad, code, now);
  }
}

/// True: nothing is left to do for the message.
bool ConnectionManager::ends_orphan(const Received& r, const packet::CmMessage& message) {
  const auto ended = [&](packet::CommId local_id, packet::CommId remote_id) {
    return core_.table.find(local_id) == nullptr &&
           orphans_.ended(local_id, remote_id, r.route.remote);
  };
  if (const auto* drep = std::get_if<packet::CmDrep>(&message)) {
    return ended(drep->remote_id, drep->local_id);
  }
  if (const auto* rej = std::get_if<packet::CmRej>(&message)) {
    return rej->remote_id.known() && ended(rej->remote_id, rej->local_id);
  }
  if (const auto* dreq = std::get_if<packet::CmDreq>(&message)) {
    ended(dreq->remote_id, dreq->local_id);  // it wants its DREP all the same
  }
  return false;
}

void ConnectionManager::dispatch(const Received& r, const packet::CmMessage& message) {
  std::visit(Dispatch{core_, sidr_, r}, message);
}

/// While the process that owns an id lives, only it answers for that id: another process would
/// refuse what it doesn't know.
bool ConnectionManager::is_for_us(const packet::CmMessage& message) const {
  return std::visit(
      [this](const auto& m) {
        using Message = std::decay_t<decltype(m)>;
        if constexpr (std::is_same_v<Message, packet::CmRej>) {
          return !m.remote_id.known() || core_.ids.is_ours(m.remote_id);
        } else if constexpr (requires { m.remote_id; }) {
          return core_.ids.is_ours(m.remote_id);
        } else if constexpr (std::is_same_v<Message, packet::CmSidrRep>) {
          return core_.ids.is_ours(m.request_id);
        } else {
          return true;  // REQ, SIDR_REQ
        }
      },
      message);
}

void ConnectionManager::expire(Instant now) {
  core_.answers.expire(now);
  sidr_.expire(now);
  orphans_.expire(now);
  while (Connection* const c = core_.table.due(now)) on_deadline(core_, *c, now);
}

Instant ConnectionManager::next_deadline() const {
  return std::min({core_.table.next_deadline(), sidr_.next_deadline(),
                   core_.answers.next_deadline(), orphans_.next_deadline()});
}

}  // namespace verbena::cm
