#include "cm/sidr.h"

#include <algorithm>
#include <utility>

#include "cm/addressing.h"
#include "cm/timing.h"

namespace verbena::cm {
namespace {

using packet::CmAttribute;
using packet::CmSidrRep;
using packet::CmSidrReq;
using packet::SidrStatus;

RequestKey key_of(const Received& r, const CmSidrReq& m) {
  return {r.route.remote, m.request_id, r.transaction};
}

/// A SIDR_REQ doesn't say how often it is retried. The kernel retries it for this long.
Duration usual_span() { return request_span(kResponseTimeout.duration(), kMaxRetries); }

}  // namespace

Result<ConnectionId> Sidr::request(const SidrRequestParameters& p, Instant now) {
  if (const auto ok = check_request("sidr_request", p.source, p.destination, p.service,
                                    p.private_data.size(), CmSidrReq::kPrivateSize);
      !ok) {
    return ok.error();
  }
  if (resolutions_.size() >= core_.config.max_connections) {
    return Error{ENOMEM, "sidr_request: " + std::to_string(resolutions_.size()) +
                             " requests wait, which is the limit; wait for their answers"};
  }
  Resolution s;
  s.id = core_.new_id();
  s.active = true;
  s.request_id = core_.ids.take();
  s.route = {.local = p.source, .remote = p.destination};
  s.transaction = s.request_id.value();
  s.peer.local = {p.source, p.source_port};
  s.peer.remote = {p.destination, p.service.port()};
  s.peer.service = p.service;
  s.retries = {now, bounded(p.timeout), p.max_retries};
  s.listener_retry = ListenerRetry{now};
  CmSidrReq req{.request_id = s.request_id, .service = p.service};
  put_request_data({.source_port = p.source_port, .source = p.source, .destination = p.destination},
                   p.service, p.private_data, req.private_data);
  s.mad = core_.send(s.route, s.transaction, req);
  active_.emplace(s.request_id.value(), s.id);
  Resolution& added = resolutions_.emplace(s.id, s).first->second;
  set_deadline(added, added.retries.next());
  return added.id;
}

Status Sidr::reply(ConnectionId id, const SidrReplyParameters& p) {
  Resolution& s = *find(id);
  if (s.active) {
    return Error{EINVAL, "sidr_reply: connection " +
                             std::to_string(static_cast<std::uint64_t>(id)) +
                             " is our own request; only a received request can be replied to"};
  }
  if (auto fits =
          check_size("sidr_reply", "private data", p.private_data.size(), CmSidrRep::kPrivateSize);
      !fits) {
    return fits;
  }
  answer(s, {.request_id = s.request_id,
             .status = p.status,
             .qpn = p.qpn,
             .service = s.peer.service,
             .qkey = p.qkey,
             .private_data = filled_up<CmSidrRep::kPrivateSize>(p.private_data)});
  remove(s);
  return Ok{};
}

void Sidr::taken(ConnectionId id) { leave_backlog(*find(id)); }

void Sidr::destroy(ConnectionId id) {
  Resolution& s = *find(id);
  if (!s.active) {
    answer(s,
           {.request_id = s.request_id, .status = SidrStatus::rejected, .service = s.peer.service});
  }
  remove(s);
}

void Sidr::on_sidr_req(const Received& r, const CmSidrReq& m) {
  if (const auto* said = core_.answers.find(key_of(r, m))) {
    ++core_.counters.rx_duplicates[CmAttribute::sidr_req];
    return core_.resend(*said);
  }
  if (passive_.contains(key_of(r, m))) {
    ++core_.counters.rx_duplicates[CmAttribute::sidr_req];  // the owner hasn't answered yet
    return;
  }
  new_request(r, m);
}

void Sidr::new_request(const Received& r, const CmSidrReq& m) {
  const auto ends = addressing_of(r.route, m.service, m.private_data);
  Listener* const listener =
      ends ? core_.listeners.find(m.service, true, ends->local.address) : nullptr;
  if (listener == nullptr) return refuse(r, m, SidrStatus::unsupported_service);
  if (listener->full()) {
    ++core_.counters.drop_backlog;
    return;
  }
  if (resolutions_.size() >= core_.config.max_connections) {
    return refuse(r, m, SidrStatus::no_qp);
  }

  Resolution s;
  s.id = core_.new_id();
  s.request_id = m.request_id;
  s.route = r.route;
  s.transaction = r.transaction;
  s.peer.local = ends->local;
  s.peer.remote = ends->remote;
  s.peer.service = m.service;
  s.backlog_place = listener->id;
  s.request_over = r.now + usual_span();
  ++listener->pending;
  passive_.emplace(key_of(r, m), s.id);
  const Resolution& added = resolutions_.emplace(s.id, s).first->second;
  tell(added, {.kind = EventKind::connect_request,
               .listener = listener->id,
               .offer = added.peer,
               .private_data = ends->private_data});
}

void Sidr::on_sidr_rep(const Received& r, const CmSidrRep& m) {
  const auto found = active_.find(m.request_id.value());
  if (found == active_.end()) {
    ++core_.counters.drop_unknown_id;
    return;
  }
  Resolution& s = *find(found->second);
  if (s.route.remote != r.route.remote) {
    ++core_.counters.drop_source;
    return;
  }
  if (retry_refused(s, m, r.now)) return;
  s.peer.qpn = m.qpn;
  s.peer.qkey = m.qkey;
  const bool valid = m.status == SidrStatus::valid;
  const auto info = std::min<std::size_t>(m.info_length, m.info.size());
  tell(s,
       {.kind = valid ? EventKind::established : EventKind::unreachable,
        .status = static_cast<int>(m.status),
        .offer = s.peer,
        .private_data = {m.private_data.begin(), m.private_data.end()},
        .additional_info = {m.info.begin(), m.info.begin() + static_cast<std::ptrdiff_t>(info)}});
  remove(s);
}

/// True: the request was refused for lack of a listener, and is retried.
bool Sidr::retry_refused(Resolution& s, const CmSidrRep& m, Instant now) {
  if (m.status != SidrStatus::unsupported_service) return false;
  const auto soon = s.listener_retry.next(now);
  if (!soon) return false;
  s.retries.add_extra(*soon);
  set_deadline(s, s.retries.next());
  return true;
}

void Sidr::on_undelivered(packet::CommId request_id, const IncomingMad& mad, int code,
                          Instant now) {
  const auto found = active_.find(request_id.value());
  Resolution* const s = found != active_.end() ? find(found->second) : nullptr;
  if (s == nullptr || !is_returned({s->route, s->mad}, mad)) {
    ++core_.counters.drop_undelivered;
    return;
  }
  if (const auto soon = s->undelivered.next_delay(now)) {
    s->retries.add_extra(now + *soon);
    return set_deadline(*s, s->retries.next());
  }
  ++core_.counters.undelivered;
  tell(*s, {.kind = EventKind::unreachable, .status = -code});
  remove(*s);
}

void Sidr::expire(Instant now) {
  while (const auto id = deadlines_.due(now)) {
    Resolution& s = *find(*id);
    if (!s.retries.advance(now)) {
      ++core_.counters.timeouts;
      tell(s, {.kind = EventKind::unreachable, .status = -ETIMEDOUT});
      remove(s);
      continue;
    }
    core_.resend({s.route, s.mad});
    set_deadline(s, s.retries.next());
  }
}

const Sidr::Resolution* Sidr::find(ConnectionId id) const {
  const auto found = resolutions_.find(id);
  return found != resolutions_.end() ? &found->second : nullptr;
}

Sidr::Resolution* Sidr::find(ConnectionId id) {
  const auto found = resolutions_.find(id);
  return found != resolutions_.end() ? &found->second : nullptr;
}

void Sidr::set_deadline(Resolution& s, Instant when) {
  deadlines_.remove(s.deadline, s.id);
  s.deadline = when;
  deadlines_.add(when, s.id);
}

void Sidr::leave_backlog(Resolution& s) {
  Listener* const listener = core_.listeners.find(std::exchange(s.backlog_place, ListenerId{}));
  if (listener != nullptr) --listener->pending;
}

void Sidr::answer(const Resolution& s, const CmSidrRep& rep) {
  const OutgoingMad mad{s.route, core_.send(s.route, s.transaction, rep)};
  core_.answers.remember({s.route.remote, s.request_id, s.transaction}, mad, s.request_over);
}

void Sidr::refuse(const Received& r, const CmSidrReq& m, SidrStatus status) {
  core_.send(r.route, r.transaction,
             CmSidrRep{.request_id = m.request_id, .status = status, .service = m.service});
}

void Sidr::tell(const Resolution& s, Event event) {
  event.id = s.id;
  event.datagram = true;
  core_.events.push_back(std::move(event));
}

void Sidr::remove(Resolution& s) {
  leave_backlog(s);
  deadlines_.remove(s.deadline, s.id);
  if (s.active) {
    active_.erase(s.request_id.value());
    core_.ids.give_back(s.request_id);
  } else {
    passive_.erase({s.route.remote, s.request_id, s.transaction});
  }
  resolutions_.erase(s.id);
}

}  // namespace verbena::cm
