#include "host/connections/connection_service.h"

#include <cstddef>

namespace verbena::host {

ConnectionService::ConnectionService(Wires& wires, Entropy& entropy)
    : wires_{wires}, manager_{{.slot = wires.network().slot()}, entropy} {}

void ConnectionService::receive(const packet::Datagram& d, Instant now) {
  const wire::UdpWire& ports = wires_.network();
  if (ports.nobody_listens(d)) {
    const Duration patience =
        ports.is_bound(d) ? WaitingRequests::kPatienceIfBound : WaitingRequests::kPatience;
    if (waiting_.add(d, now, patience)) return;
  }
  manage(d, now);
}

void ConnectionService::undelivered(const wire::Undelivered& u, Instant now) {
  const packet::Datagram back{.source = u.destination, .destination = u.source, .bytes = u.bytes};
  if (const auto mad = mad_of(back)) manager_.undelivered(*mad, u.code, now);
}

void ConnectionService::manage(const packet::Datagram& d, Instant now) {
  auto mad = mad_of(d);
  if (!mad) return;
  mad->orphaned = wires_.network().owner_is_dead(d);
  manager_.receive(*mad, now);
}

void ConnectionService::look_for_listeners(Instant now) {
  wire::UdpWire& ports = wires_.network();
  waiting_.look(now, [&](const packet::Datagram& d, bool last) {
    if (ports.pass_to_listener(d)) return true;
    if (ports.nobody_listens(d) && !last) return false;
    manage(d, now);
    return true;
  });
}

bool ConnectionService::send_messages() {
  auto& outbox = manager_.outbox();
  std::size_t sent = 0;
  for (const cm::OutgoingMad& mad : outbox) {
    wire::UdpWire& wire = wires_.for_path(mad.route.remote);
    const auto port = wire.management_port(mad.route.local);
    // A message whose source address isn't open counts as lost: the sender will retry.
    if (port && !gsi_.send(mad, *port, wire)) break;
    ++sent;
  }
  outbox.erase(outbox.begin(), outbox.begin() + static_cast<std::ptrdiff_t>(sent));
  return outbox.empty();
}

}  // namespace verbena::host
