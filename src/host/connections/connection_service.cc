#include "host/connections/connection_service.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "host/clock.h"
#include "packet/bth.h"
#include "packet/cm_steering.h"

namespace verbena::host {

ConnectionService::ConnectionService(registry::Registry& registry, Wires& wires, Entropy& entropy,
                                     OrphanSearch::OpenAddress open_address)
    : registry_{registry},
      wires_{wires},
      shared_{registry},
      manager_{{.slot = registry.slot()}, entropy},
      orphan_search_{registry, wires, shared_, manager_, std::move(open_address)} {
  manager_.keep_records(&shared_);
}

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

/// The name of the counter of dropped messages that has grown; empty: none has.
std::string_view dropped_since(const cm::Counters& before, const cm::Counters& now) {
  struct Reason {
    std::string_view name;
    std::uint64_t cm::Counters::*counter;
  };
  constexpr std::array kReasons{Reason{"drop_unknown_id", &cm::Counters::drop_unknown_id},
                                Reason{"drop_other_slot", &cm::Counters::drop_other_slot},
                                Reason{"drop_source", &cm::Counters::drop_source},
                                Reason{"drop_state", &cm::Counters::drop_state},
                                Reason{"drop_backlog", &cm::Counters::drop_backlog}};
  if (before.drop_malformed != now.drop_malformed) return "drop_malformed";
  const auto grown = std::ranges::find_if(
      kReasons, [&](const Reason& r) { return before.*r.counter != now.*r.counter; });
  return grown != kReasons.end() ? grown->name : std::string_view{};
}

}  // namespace

void ConnectionService::receive(const packet::Datagram& d, Instant now) {
  // The round began before the message came.
  const Instant arrived = trace_ != nullptr ? host::now() : now;
  // The network's wire looks where a frame belongs; who sends by rings may have been overtaken.
  if (d.way == packet::Way::host && pass_to_listener(d)) return;
  if (nobody_listens(d)) {
    // A process that is bound to the port may be about to listen.
    const bool bound = registry_.is_bound(*service_of(d), d.destination);
    const Duration patience =
        bound ? WaitingRequests::kPatienceIfBound : WaitingRequests::kPatience;
    if (waiting_.add(d, arrived, patience)) return;
  }
  manage(d, arrived, now);
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
  static_cast<void>(wires_.hand_over(d, *listener));  // one that is lost is sent again
  return true;
}

void ConnectionService::undelivered(const wire::Undelivered& u, Instant now) {
  if (u.bytes.size() < packet::Bth::kSize) return;
  const packet::Datagram back{.source = u.destination,
                              .destination = u.source,
                              .destination_qpn = packet::destination_qpn_of(u.bytes),
                              .bytes = u.bytes};
  if (const auto mad = mad_of(back)) manager_.undelivered(*mad, u.code, now);
}

void ConnectionService::manage(const packet::Datagram& d, Instant arrived, Instant now) {
  auto mad = mad_of(d);
  if (!mad) return;
  mad->orphaned = owner_is_dead(d, registry_);
  if (trace_ == nullptr) {
    manager_.receive(*mad, now);
    return;
  }
  trace_->message_received(arrived, d);
  const cm::Counters before = manager_.counters();
  manager_.receive(*mad, now);
  const std::string_view reason = dropped_since(before, manager_.counters());
  if (!reason.empty()) trace_->message_dropped(reason, d);
}

void ConnectionService::look_for_listeners(Instant now) {
  waiting_.look(now, [&](const packet::Datagram& d, Instant arrived, bool last) {
    if (pass_to_listener(d)) return true;
    if (nobody_listens(d) && !last) return false;
    manage(d, arrived, now);
    return true;
  });
}

bool ConnectionService::send_messages(Instant now) {
  auto& outbox = manager_.outbox();
  std::vector<cm::OutgoingMad> nowhere;
  bool full = false;
  // Those whose path is full stay; others may overtake them. Few wait, so erasing is cheap.
  for (auto mad = outbox.begin(); mad != outbox.end() && !(full && wires_.full());) {
    const auto sent = gsi_.send(*mad, wires_);
    if (!sent) nowhere.push_back(*mad);
    const bool gone = sent.value_or(true);
    full = full || !gone;
    mad = gone ? outbox.erase(mad) : std::next(mad);
  }
  // As if the network had said so.
  for (const cm::OutgoingMad& mad : nowhere) {
    manager_.undelivered({.route = mad.route, .bytes = mad.bytes}, EHOSTUNREACH, now);
  }
  return outbox.empty();
}

}  // namespace verbena::host
