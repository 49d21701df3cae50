#pragma once

#include <algorithm>

#include "base/entropy.h"
#include "base/time.h"
#include "cm/connection_manager.h"
#include "host/connections/gsi.h"
#include "host/connections/orphan_search.h"
#include "host/connections/shared_connections.h"
#include "host/connections/waiting_requests.h"
#include "host/wires.h"
#include "packet/frame.h"
#include "registry/registry.h"
#include "wire/undelivered.h"

namespace verbena::host {

/// QP 1: brings the connection manager its messages, sends its answers, and keeps requests that
/// wait for a listener. Not thread-safe: the shard lock guards it.
class ConnectionService {
 public:
  /// `open_address`: see OrphanSearch.
  ConnectionService(registry::Registry& registry, Wires& wires, Entropy& entropy,
                    OrphanSearch::OpenAddress open_address);

  [[nodiscard]] cm::ConnectionManager& manager() { return manager_; }
  /// nullptr: nobody.
  void observe(Trace* trace) {
    trace_ = trace;
    gsi_.observe(trace);
  }

  /// A datagram to QP 1.
  void receive(const packet::Datagram& d, Instant now);
  /// A message reached nobody, as the network says.
  void undelivered(const wire::Undelivered& u, Instant now);

  /// Retries, looks for listeners and for connections of dead processes, and sends. `quiet`: see
  /// OrphanSearch. False: a path is full; call again later.
  [[nodiscard]] bool work(Instant now, bool quiet) {
    if (registry_.next_deadline() <= now) registry_.work(now);
    orphan_search_.work(now, quiet);
    if (waiting_.next_look() <= now) look_for_listeners(now);
    if (manager_.next_deadline() <= now) manager_.expire(now);
    return manager_.outbox().empty() || send_messages(now);
  }
  [[nodiscard]] Instant next_deadline() const {
    return std::min({manager_.next_deadline(), waiting_.next_look(), orphan_search_.next_deadline(),
                     registry_.next_deadline()});
  }

 private:
  /// It came at the instant `arrived`.
  void manage(const packet::Datagram& d, Instant arrived, Instant now);
  void look_for_listeners(Instant now);
  [[nodiscard]] bool nobody_listens(const packet::Datagram& d) const;
  [[nodiscard]] bool pass_to_listener(const packet::Datagram& d);
  bool send_messages(Instant now);

  registry::Registry& registry_;
  Wires& wires_;
  SharedConnections shared_;
  cm::ConnectionManager manager_;
  OrphanSearch orphan_search_;
  Gsi gsi_;
  WaitingRequests waiting_;
  Trace* trace_ = nullptr;
};

}  // namespace verbena::host
