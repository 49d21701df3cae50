#include "cm/active.h"

#include <algorithm>
#include <utility>

#include "cm/addressing.h"
#include "cm/disconnect.h"
#include "cm/mra.h"
#include "cm/rej.h"
#include "cm/timing.h"

namespace verbena::cm {
namespace {

using packet::CmAnswered;
using packet::RejectReason;

Status check(const ConnectParameters& p) {
  if (auto ok = check_request("connect", p.source, p.destination, p.service, p.private_data.size(),
                              packet::CmReq::kPrivateSize);
      !ok) {
    return ok;
  }
  if (!bytes_of(p.mtu)) {
    return Error{EINVAL, "connect: path mtu number " + std::to_string(static_cast<int>(p.mtu)) +
                             ", valid are 1 (256 bytes) to 5 (4096)"};
  }
  return Ok{};
}

Connection connection_for(Core& core, const ConnectParameters& p) {
  Connection c;
  c.id = core.new_id();
  c.active = true;
  c.state = State::req_sent;
  c.local_id = core.ids.take();
  c.route = {.local = p.source, .remote = p.destination};
  c.local_guid = p.ca_guid;
  c.transaction = c.local_id.value();
  c.local = p.offer;
  c.peer.local = {p.source, p.source_port};
  c.peer.remote = {p.destination, p.service.port()};
  c.peer.service = p.service;
  c.peer.transport = p.transport;
  c.peer.retry_count = std::min<std::uint8_t>(7, p.retry_count);
  c.peer.mtu = p.mtu;
  c.ack_timeout = p.ack_timeout;
  c.traffic_class = p.traffic_class;
  c.hop_limit = p.hop_limit;
  c.flow_label = p.flow_label;
  c.response_interval = request_interval(p.response_timeout, p.ack_timeout);
  c.peer_interval = bounded(p.response_timeout.duration());
  c.max_retries = std::min<std::uint8_t>(15, p.max_retries);
  return c;
}

packet::CmTransport transport_of(Transport t) {
  switch (t) {
    case Transport::rc:
      return packet::CmTransport::rc;
    case Transport::uc:
      return packet::CmTransport::uc;
    case Transport::xrc:
      return packet::CmTransport::extended;
  }
  return packet::CmTransport::rc;
}

packet::CmReq request_for(const Connection& c, const ConnectParameters& p) {
  packet::CmReq req{.local_id = c.local_id,
                    .service = p.service,
                    .ca_guid = p.ca_guid,
                    .qpn = p.offer.qpn,
                    .responder_resources = p.offer.responder_resources,
                    .initiator_depth = p.offer.initiator_depth,
                    .remote_response_timeout = p.response_timeout,
                    .transport = transport_of(p.transport),
                    .flow_control = p.offer.flow_control,
                    .starting_psn = p.offer.starting_psn,
                    .local_response_timeout = p.response_timeout,
                    .retry_count = c.peer.retry_count,
                    .mtu = p.mtu,
                    .rnr_retry_count = std::min<std::uint8_t>(7, p.offer.rnr_retry_count),
                    .max_cm_retries = c.max_retries,
                    .srq = p.offer.srq,
                    .extended_transport = p.transport == Transport::xrc
                                              ? packet::CmReq::kExtendedXrc
                                              : std::uint8_t{0},
                    .primary = {.local_lid = packet::kPermissiveLid,
                                .remote_lid = packet::kPermissiveLid,
                                .local = p.source,
                                .remote = p.destination,
                                .flow_label = p.flow_label,
                                .traffic_class = p.traffic_class,
                                .hop_limit = p.hop_limit,
                                .ack_timeout = p.ack_timeout}};
  put_request_data({.source_port = p.source_port, .source = p.source, .destination = p.destination},
                   p.service, p.private_data, req.private_data);
  return req;
}

/// IBA 12.9.8.3.1: the peer's queue pair serves another connection, so one of them is stale.
void refuse_stale(Core& core, Connection& c, Connection& old, const packet::CmRep& m, Instant now) {
  ++core.counters.stale_connections;
  c.remote_id = m.local_id;
  send_rej(core, c, CmAnswered::rep, RejectReason::stale_connection);
  core.tell(c, {.kind = EventKind::connect_error, .status = -ESTALE});
  core.remove(c);
  disconnect_stale(core, old, now);
}

void take_offer(Core& core, Connection& c, const Received& r, const packet::CmRep& m) {
  c.remote_id = m.local_id;
  c.route.remote_qp = r.route.remote_qp;
  c.remote_guid = m.ca_guid;
  c.peer.qpn = c.peer.transport == Transport::xrc ? Qpn{m.eecn} : m.qpn;
  c.peer.qkey = m.qkey;
  c.peer.starting_psn = m.starting_psn;
  c.peer.responder_resources = m.initiator_depth;
  c.peer.initiator_depth = m.responder_resources;
  c.peer.rnr_retry_count = m.rnr_retry_count;
  c.peer.flow_control = m.flow_control;
  c.peer.srq = m.srq;
  c.peer.target_ack_delay = m.target_ack_delay;
  c.ack_timeout = sum(c.ack_timeout, m.target_ack_delay);
  core.table.index_remote_qpn(c);
}

void on_first_rep(Core& core, Connection& c, const Received& r, const packet::CmRep& m) {
  const Qpn qpn = c.peer.transport == Transport::xrc ? Qpn{m.eecn} : m.qpn;
  if (Connection* const old = core.table.find_remote_qpn(r.route.remote, qpn, m.ca_guid)) {
    return refuse_stale(core, c, *old, m, r.now);
  }
  core.stop_waiting(c);
  take_offer(core, c, r, m);
  c.state = State::rep_rcvd;
  c.early_until = r.now + RetrySchedule::early_within(c.peer_interval);
  core.tell(c, {.kind = EventKind::connect_response,
                .offer = c.peer,
                .private_data = {m.private_data.begin(), m.private_data.end()}});
}

/// Our RTU was lost, or our owner is slow.
void on_retried_rep(Core& core, const Received& r, Connection& c, const packet::CmRep& m) {
  if (!c.active || m.local_id != c.remote_id) {
    ++core.counters.drop_state;
    return;
  }
  ++core.counters.rx_duplicates[packet::CmAttribute::rep];
  if (c.state == State::established) {
    core.resend({c.route, c.rtu});
  } else if (c.state == State::rep_rcvd && r.now >= c.early_until) {
    send_mra_to_rep(core, c);
  }
}

}  // namespace

Result<ConnectionId> connect(Core& core, const ConnectParameters& p, Instant now) {
  if (const auto ok = check(p); !ok) return ok.error();
  if (core.table.full()) {
    return Error{ENOMEM, "connect: " + std::to_string(core.table.size()) +
                             " connections exist, which is the limit; close some"};
  }
  Connection& c = core.table.add(connection_for(core, p));
  core.send_and_wait(c, c.transaction, request_for(c, p), now);
  return c.id;
}

void on_rep(Core& core, const Received& r, const packet::CmRep& m) {
  Connection* const c = core.table.find(m.remote_id);
  if (c == nullptr) {
    // The connection was given up. The peer needn't wait for its timeout.
    ++core.counters.drop_unknown_id;
    return reject_message(core, r,
                          {.local_id = m.remote_id,
                           .remote_id = m.local_id,
                           .message = CmAnswered::rep,
                           .reason = RejectReason::invalid_comm_id});
  }
  if (c->route.remote != r.route.remote) {
    ++core.counters.drop_source;
    return;
  }
  if (c->state == State::req_sent) return on_first_rep(core, *c, r, m);
  on_retried_rep(core, r, *c, m);
}

Status establish(Core& core, Connection& c, const PrivateData& private_data) {
  if (c.state != State::rep_rcvd) return wrong_state("establish", c, "rep_rcvd");
  if (auto fits =
          check_size("establish", "private data", private_data.size(), packet::CmRtu::kPrivateSize);
      !fits) {
    return fits;
  }
  const packet::CmRtu rtu{
      .local_id = c.local_id,
      .remote_id = c.remote_id,
      .private_data = filled_up<packet::CmRtu::kPrivateSize>(private_data),
  };
  if (core.records != nullptr) core.records->publish(record_of(c));
  c.rtu = core.send(c.route, c.transaction, rtu);
  c.state = State::established;
  return Ok{};
}

}  // namespace verbena::cm
