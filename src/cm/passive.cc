#include "cm/passive.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "cm/addressing.h"
#include "cm/disconnect.h"
#include "cm/mra.h"
#include "cm/rej.h"
#include "cm/timing.h"

namespace verbena::cm {
namespace {

using packet::CmAnswered;
using packet::CmAttribute;
using packet::CmReq;
using packet::RejectReason;

std::optional<Transport> transport_of(const CmReq& m) {
  switch (m.transport) {
    case packet::CmTransport::rc:
      return Transport::rc;
    case packet::CmTransport::uc:
      return Transport::uc;
    case packet::CmTransport::extended:
      if (m.extended_transport == CmReq::kExtendedXrc) return Transport::xrc;
      return std::nullopt;
    case packet::CmTransport::rd:
      return std::nullopt;
  }
  return std::nullopt;
}

struct Refusal {
  RejectReason reason{};
  std::vector<std::uint8_t> info{};  // what would do instead (IBA table 108)
};

std::vector<std::uint8_t> bytes_of_address(const IpAddress& a) {
  return {a.bytes().begin(), a.bytes().end()};
}

/// What no listener could take. A path must be the way that the request came: with RoCE, GIDs are
/// the addresses of the packets.
std::optional<Refusal> refusal_of(const Received& r, const CmReq& m) {
  if (!transport_of(m)) return Refusal{RejectReason::invalid_transport, {}};
  if (!packet::bytes_of(m.mtu)) {
    return Refusal{RejectReason::invalid_mtu,
                   {static_cast<std::uint8_t>(packet::PathMtu::mtu_4096)}};
  }
  if (m.primary.remote != r.route.local) {
    return Refusal{RejectReason::invalid_gid, bytes_of_address(r.route.local)};
  }
  if (m.primary.local != r.route.remote) {
    return Refusal{RejectReason::invalid_gid, bytes_of_address(r.route.remote)};
  }
  return std::nullopt;
}

void refuse(Core& core, const Received& r, const CmReq& m, const Refusal& why) {
  reject_message(core, r,
                 {.remote_id = m.local_id,
                  .message = CmAnswered::req,
                  .info_length = static_cast<std::uint8_t>(why.info.size()),
                  .reason = why.reason,
                  .info = filled_up<72>(why.info)});
}

PeerOffer offer_of(const CmReq& m, const Addressing& ends) {
  return {.local = ends.local,
          .remote = ends.remote,
          .service = m.service,
          .transport = *transport_of(m),
          .qpn = m.qpn,
          .qkey = m.qkey,
          .starting_psn = m.starting_psn,
          .responder_resources = m.initiator_depth,
          .initiator_depth = m.responder_resources,
          .retry_count = m.retry_count,
          .rnr_retry_count = m.rnr_retry_count,
          .flow_control = m.flow_control,
          .srq = m.srq,
          .mtu = m.mtu};
}

Connection connection_for(Core& core, const Received& r, const CmReq& m, const Addressing& ends) {
  Connection c;
  c.id = core.new_id();
  c.state = State::req_rcvd;
  c.local_id = core.ids.take();
  c.remote_id = m.local_id;
  c.route = r.route;
  c.remote_guid = m.ca_guid;
  c.transaction = r.transaction;
  c.peer = offer_of(m, ends);
  c.ack_timeout = sum(m.primary.ack_timeout, core.config.ack_delay);
  c.traffic_class = m.primary.traffic_class;
  c.hop_limit = m.primary.hop_limit;
  c.flow_label = m.primary.flow_label;
  c.response_interval = bounded(m.local_response_timeout.duration());
  c.max_retries = m.max_cm_retries;
  c.peer_interval = request_interval(m.remote_response_timeout, m.primary.ack_timeout);
  c.early_until = r.now + RetrySchedule::early_within(c.peer_interval);
  c.request_over = r.now + request_span(c.peer_interval, m.max_cm_retries);
  return c;
}

void new_request(Core& core, const Received& r, const CmReq& m) {
  const auto ends = addressing_of(r.route, m.service, m.private_data);
  Listener* const listener =
      ends ? core.listeners.find(m.service, false, ends->local.address) : nullptr;
  if (listener == nullptr) return refuse(core, r, m, {RejectReason::invalid_service_id, {}});
  if (listener->full()) {
    ++core.counters.drop_backlog;  // no answer: the peer will try again
    return;
  }
  if (core.table.full()) return refuse(core, r, m, {RejectReason::no_resources, {}});

  Connection& c = core.table.add(connection_for(core, r, m, *ends));
  core.table.index_request(c);
  core.table.index_remote_qpn(c);
  c.backlog_place = listener->id;
  ++listener->pending;
  core.tell(c, {.kind = EventKind::connect_request,
                .listener = listener->id,
                .offer = c.peer,
                .private_data = ends->private_data});
}

void on_retried_req(Core& core, const Received& r, Connection& c) {
  ++core.counters.rx_duplicates[CmAttribute::req];
  switch (c.state) {
    case State::req_rcvd:
      if (r.now >= c.early_until) send_mra_to_req(core, c, r.now);
      return;
    case State::rep_sent:
      return core.resend({c.route, c.pending.mad});
    case State::timewait:
      return reject_message(core, r,
                            {.local_id = c.local_id,
                             .remote_id = c.remote_id,
                             .message = CmAnswered::req,
                             .reason = RejectReason::stale_connection});
    case State::req_sent:
    case State::rep_rcvd:
    case State::established:
    case State::dreq_sent:
    case State::dreq_rcvd:
      return;
  }
}

/// IBA 12.9.8.3.1: the peer's queue pair serves another connection, so one of them is stale.
void refuse_stale(Core& core, const Received& r, const CmReq& m, Connection& old) {
  ++core.counters.stale_connections;
  refuse(core, r, m, {RejectReason::stale_connection, {}});
  disconnect_stale(core, old, r.now);
}

packet::CmRep reply_for(const Core& core, const Connection& c, const AcceptParameters& p) {
  const bool xrc = c.peer.transport == Transport::xrc;
  return {.local_id = c.local_id,
          .remote_id = c.remote_id,
          .qpn = xrc ? Qpn{} : p.offer.qpn,
          .eecn = xrc ? p.offer.qpn.value() : 0,
          .starting_psn = p.offer.starting_psn,
          .responder_resources = p.offer.responder_resources,
          .initiator_depth = p.offer.initiator_depth,
          .target_ack_delay = core.config.ack_delay,
          .flow_control = p.offer.flow_control,
          .rnr_retry_count = std::min<std::uint8_t>(7, p.offer.rnr_retry_count),
          .srq = p.offer.srq || xrc,
          .ca_guid = p.ca_guid,
          .private_data = filled_up<packet::CmRep::kPrivateSize>(p.private_data)};
}

void become_established(Core& core, Connection& c, PrivateData private_data) {
  core.stop_waiting(c);
  c.state = State::established;
  core.tell(c, {.kind = EventKind::established, .private_data = std::move(private_data)});
}

}  // namespace

void on_req(Core& core, const Received& r, const CmReq& m) {
  if (!m.local_id.known()) {
    ++core.counters.drop_unknown_id;  // an answer could not name it
    return;
  }
  if (const auto* answer = core.answers.find({r.route.remote, m.local_id, r.transaction})) {
    ++core.counters.rx_duplicates[CmAttribute::req];
    return core.resend(*answer);
  }
  if (Connection* const c = core.table.find_request(r.route.remote, m.local_id, m.ca_guid)) {
    return on_retried_req(core, r, *c);
  }
  if (const auto why = refusal_of(r, m)) return refuse(core, r, m, *why);
  if (Connection* const old = core.table.find_remote_qpn(r.route.remote, m.qpn, m.ca_guid)) {
    return refuse_stale(core, r, m, *old);
  }
  new_request(core, r, m);
}

Status accept(Core& core, Connection& c, const AcceptParameters& p, Instant now) {
  if (c.state != State::req_rcvd) return wrong_state("accept", c, "req_rcvd");
  if (auto fits =
          check_size("accept", "private data", p.private_data.size(), packet::CmRep::kPrivateSize);
      !fits) {
    return fits;
  }
  core.leave_backlog(c);
  c.local = p.offer;
  c.local_guid = p.ca_guid;
  c.state = State::rep_sent;
  if (core.records != nullptr) core.records->publish(record_of(c));
  core.send_and_wait(c, c.transaction, reply_for(core, c, p), now);
  return Ok{};
}

void on_rtu(Core& core, const Received& r, const packet::CmRtu& m) {
  Connection* const c = find_connection(core, r, m.remote_id, m.local_id);
  if (c == nullptr) {
    // It answers a REP that we have taken back; our REJ was lost, or is on its way.
    const auto* answer = core.answers.find({r.route.remote, m.local_id, r.transaction});
    if (answer != nullptr) core.resend(*answer);
    return;
  }
  if (c->state != State::rep_sent) {
    ++core.counters.rx_duplicates[CmAttribute::rtu];
    return;
  }
  become_established(core, *c, {m.private_data.begin(), m.private_data.end()});
}

Status notify_established(Core& core, Connection& c) {
  if (c.state == State::established) return Ok{};
  if (c.state != State::rep_sent) return wrong_state("notify_established", c, "rep_sent");
  become_established(core, c, {});
  return Ok{};
}

}  // namespace verbena::cm
