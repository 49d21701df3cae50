#include "cm/rej.h"

#include <algorithm>
#include <cstddef>

#include "base/bytes.h"
#include "cm/timewait.h"

namespace verbena::cm {
namespace {

using packet::CmAnswered;
using packet::RejectReason;

/// A REJ with reason "timeout" comes from a peer that may not know our id: it names its own, and
/// its GUID is in the additional info (IBA 12.6.7.2).
Connection* find_timed_out(Core& core, const Received& r, const packet::CmRej& m) {
  if (m.reason != RejectReason::timeout || m.info_length < 8) return nullptr;
  return core.table.find_request(r.route.remote, m.local_id, load_be64(m.info.data()));
}

/// A REJ of our REQ may come from a process that has no id for the connection.
Connection* find_rejected(Core& core, const Received& r, const packet::CmRej& m) {
  if (!m.remote_id.known()) return find_timed_out(core, r, m);
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

/// True: the REQ was refused for lack of a listener, and is retried.
bool retry_refused_req(Core& core, Connection& c, const packet::CmRej& m, Instant now) {
  if (m.reason != RejectReason::invalid_service_id) return false;
  const auto when = c.pending.listener_retry.next(now);
  if (!when) return false;
  c.pending.retries.add_extra(*when);
  core.reschedule(c);
  return true;
}

/// The connection was not established on either side, so there is no timewait.
void end_rejected_request(Core& core, Connection& c, const packet::CmRej& m) {
  core.tell(c, rejected_event(m));
  if (c.state != State::req_sent) {
    // A late retry of the peer's REQ must not be taken for a new one.
    const packet::CmRej rej{.local_id = c.local_id,
                            .remote_id = c.remote_id,
                            .message = CmAnswered::req,
                            .reason = RejectReason::consumer};
    core.remember(c, {c.route, packet::encode_cm({c.transaction, rej})});
  }
  core.remove(c);
}

}  // namespace

OutgoingMad send_rej(Core& core, const Connection& c, CmAnswered message, RejectReason reason,
                     std::span<const std::uint8_t> info,
                     std::span<const std::uint8_t> private_data) {
  const packet::CmRej rej{
      .local_id = c.local_id,
      .remote_id = c.remote_id,
      .message = message,
      .info_length = static_cast<std::uint8_t>(info.size()),
      .reason = reason,
      .info = filled_up<72>(info),
      .private_data = filled_up<packet::CmRej::kPrivateSize>(private_data),
  };
  return {c.route, core.send(c.route, c.transaction, rej)};
}

void reject_message(Core& core, const Received& r, const packet::CmRej& rej) {
  core.send(r.route, r.transaction, rej);
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
  const OutgoingMad rej = send_rej(core, c, answers_req ? CmAnswered::req : CmAnswered::rep,
                                   p.reason, p.additional_info, p.private_data);
  if (answers_req) core.remember(c, rej);
  core.remove(c);
  return Ok{};
}

void on_rej(Core& core, const Received& r, const packet::CmRej& m) {
  Connection* const c = find_rejected(core, r, m);
  if (c == nullptr) {
    ++core.counters.drop_unknown_id;
    return;
  }
  switch (c->state) {
    case State::req_sent:
      if (retry_refused_req(core, *c, m, r.now)) return;
      return end_rejected_request(core, *c, m);
    case State::req_rcvd:
    case State::rep_sent:
      return end_rejected_request(core, *c, m);
    case State::rep_rcvd:
    case State::established:
      core.tell(*c, rejected_event(m));
      return enter_timewait(core, *c, r.now);
    case State::dreq_sent:
      core.tell(*c, {.kind = EventKind::disconnected});
      return enter_timewait(core, *c, r.now);
    case State::dreq_rcvd:
    case State::timewait:
      ++core.counters.drop_state;
      return;
  }
}

}  // namespace verbena::cm
