#include "cm/listeners.h"

#include <algorithm>
#include <cerrno>
#include <string>

namespace verbena::cm {
namespace {

using Family = ListenParameters::Family;

bool in_family(Family family, const IpAddress& a) {
  return family == Family::any || (family == Family::v4) == a.is_v4();
}

/// Two of one service that could not be told apart. An address beside a wildcard can: it is nearer.
bool clash(const ListenParameters& a, const ListenParameters& b) {
  if (a.address != b.address) return false;
  return a.address || a.family == Family::any || b.family == Family::any || a.family == b.family;
}

}  // namespace

Result<ListenerId> Listeners::add(const ListenParameters& parameters) {
  const auto [first, last] = by_service_.equal_range({parameters.service, parameters.datagram});
  const bool taken = std::any_of(
      first, last, [&](const auto& l) { return clash(l.second->parameters, parameters); });
  if (taken) {
    return Error{EADDRINUSE, "listen: port " + std::to_string(parameters.service.port()) + " of " +
                                 (parameters.address ? parameters.address->text()
                                                     : std::string{"any address"}) +
                                 " has a listener already; close it or take another port"};
  }
  const ListenerId id{next_++};
  Listener& listener =
      listeners_.emplace(id, Listener{.id = id, .parameters = parameters}).first->second;
  by_service_.emplace(service_of(listener), &listener);
  return id;
}

void Listeners::remove(ListenerId id) {
  const auto found = listeners_.find(id);
  if (found == listeners_.end()) return;
  const auto [first, last] = by_service_.equal_range(service_of(found->second));
  by_service_.erase(
      std::find_if(first, last, [&](const auto& l) { return l.second == &found->second; }));
  listeners_.erase(found);
}

Listener* Listeners::find(ListenerId id) {
  const auto found = listeners_.find(id);
  return found != listeners_.end() ? &found->second : nullptr;
}

Listener* Listeners::find(ServiceId service, bool datagram, const IpAddress& address) {
  Listener* everywhere = nullptr;
  const auto [first, last] = by_service_.equal_range({service, datagram});
  for (auto l = first; l != last; ++l) {
    const ListenParameters& p = l->second->parameters;
    if (p.address == address) return l->second;
    if (!p.address && in_family(p.family, address)) everywhere = l->second;
  }
  return everywhere;
}

}  // namespace verbena::cm
