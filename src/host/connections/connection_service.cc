#include "host/connections/connection_service.h"

#include <optional>
#include <variant>
#include <vector>

#include "packet/cm_steering.h"

namespace verbena::host {

ConnectionService::ConnectionService(registry::Registry& registry, Wires& wires, Entropy& entropy)
    : registry_{registry}, wires_{wires}, manager_{{.slot = registry.slot()}, entropy} {}

namespace {

/// What a connection request is for; nullopt: it is none.
std::optional<ServiceId> service_of(const packet::Datagram& d) {
  const auto target = packet::cm_target(d.bytes);
  const auto* request = target ? std::get_if<packet::ToListener>(&*target) : nullptr;
  return request != nullptr ? std::optional{request->service} : std::nullopt;
}

/// A message about a connection of a process that has died.
bool owner_is_dead(const packet::Datagram& d, const registry::Registry& registry) {
  const auto target = packet::cm_target(d.bytes);
  const auto* to = target ? std::get_if<packet::ToSlot>(&*target) : nullptr;
  return to != nullptr && !registry.held(to->slot);
}

}  // namespace

void ConnectionService::receive(const packet::Datagram& d, Instant now) {
  if (nobody_listens(d)) {
    // A process that is bound to the port may be about to listen.
    const bool bound = registry_.is_bound(*service_of(d), d.destination);
    const Duration patience =
        bound ? WaitingRequests::kPatienceIfBound : WaitingRequests::kPatience;
    if (waiting_.add(d, now, patience)) return;
  }
  manage(d, now);
}

bool ConnectionService::nobody_listens(const packet::Datagram& d) const {
  const auto service = service_of(d);
  return service && !registry_.listener_of(*service, d.destination);
}

/// A request that waited: another process may have begun to listen. True: it has it now.
bool ConnectionService::pass_to_listener(const packet::Datagram& d) {
  const auto service = service_of(d);
  const auto listener = service ? registry_.listener_of(*service, d.destination) : std::nullopt;
  if (!listener || *listener == registry_.slot()) return false;
  wires_.network().hand_over(d, *listener);
  return true;
}

void ConnectionService::undelivered(const wire::Undelivered& u, Instant now) {
  const packet::Datagram back{.source = u.destination, .destination = u.source, .bytes = u.bytes};
  if (const auto mad = mad_of(back)) manager_.undelivered(*mad, u.code, now);
}

void ConnectionService::manage(const packet::Datagram& d, Instant now) {
  auto mad = mad_of(d);
  if (!mad) return;
  mad->orphaned = owner_is_dead(d, registry_);
  manager_.receive(*mad, now);
}

void ConnectionService::look_for_listeners(Instant now) {
  waiting_.look(now, [&](const packet::Datagram& d, bool last) {
    if (pass_to_listener(d)) return true;
    if (nobody_listens(d) && !last) return false;
    manage(d, now);
    return true;
  });
}

bool ConnectionService::send_messages() {
  auto& outbox = manager_.outbox();
  bool full = false;
  // Those whose path is full stay; others may overtake them. Few wait, so erasing is cheap.
  for (auto mad = outbox.begin(); mad != outbox.end() && !(full && wires_.full());) {
    const auto port = wires_.network().management_port(mad->route.local);
    // A message whose source address isn't open counts as lost: the sender will retry.
    const bool gone = !port || gsi_.send(*mad, *port, wires_);
    full = full || !gone;
    mad = gone ? outbox.erase(mad) : std::next(mad);
  }
  return outbox.empty();
}

}  // namespace verbena::host
