#include "cm/core.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"

namespace verbena::cm {
namespace {

packet::CmAttribute attribute_of(const packet::MadBytes& mad) {
  return static_cast<packet::CmAttribute>(load_be16(&mad[16]));
}

std::string name_of(ConnectionId id) {
  return "connection " + std::to_string(static_cast<std::uint64_t>(id));
}

}  // namespace

packet::MadBytes Core::send(const Route& route, std::uint64_t transaction,
                            const packet::CmMessage& message) {
  ++counters.tx_msgs[packet::attribute_of(message)];
  outbox.push_back({route, packet::encode_cm({transaction, message})});
  return outbox.back().bytes;
}

void Core::resend(const OutgoingMad& mad) {
  ++counters.tx_msgs[attribute_of(mad.bytes)];
  ++counters.tx_retries[attribute_of(mad.bytes)];
  outbox.push_back(mad);
  outbox.back().again = true;
}

void Core::tell(const Connection& c, Event event) {
  if (!c.owned) return;
  event.id = c.id;
  events.push_back(std::move(event));
}

void Core::send_and_wait(Connection& c, std::uint64_t transaction, const packet::CmMessage& message,
                         Instant now) {
  c.pending = {.mad = send(c.route, transaction, message),
               .retries = {now, c.response_interval, c.max_retries},
               .listener_retry = ListenerRetry{now}};
  reschedule(c);
}

void Core::reschedule(Connection& c) { table.set_deadline(c, c.pending.retries.next()); }

void Core::stop_waiting(Connection& c) { table.set_deadline(c, kNever); }

void Core::remember(const Connection& c, const OutgoingMad& answer) {
  answers.remember({c.route.remote, c.remote_id, c.transaction}, answer, c.request_over);
}

void Core::leave_backlog(Connection& c) {
  Listener* const listener = listeners.find(std::exchange(c.backlog_place, ListenerId{}));
  if (listener != nullptr) --listener->pending;
}

void Core::remove(Connection& c) {
  if (records != nullptr) records->withdraw(c.local_id);
  leave_backlog(c);
  ids.give_back(c.local_id);
  table.remove(c);
}

Connection* find_connection(Core& core, const Received& r, packet::CommId local_id,
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

Status check_size(const char* call, const char* what, std::size_t size, std::size_t limit) {
  if (size <= limit) return Ok{};
  return Error{EINVAL, std::string{call} + ": " + std::to_string(size) + " bytes of " + what +
                           ", the message holds at most " + std::to_string(limit)};
}

Error no_such_connection(const char* call, ConnectionId id) {
  return {EINVAL,
          std::string{call} + ": " + name_of(id) + " doesn't exist: it ended or was never made"};
}

Error wrong_state(const char* call, const Connection& c, const char* expected) {
  return {EINVAL, std::string{call} + ": " + name_of(c.id) + " is in state " +
                      std::string{text(c.state)} + ", not in " + expected};
}

}  // namespace verbena::cm
