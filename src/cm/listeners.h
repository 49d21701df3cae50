#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "base/ip_address.h"
#include "base/result.h"
#include "cm/parameters.h"

namespace verbena::cm {

struct Listener {
  ListenerId id{};
  ListenParameters parameters{};
  std::uint32_t pending = 0;  // requests that the owner has not taken yet

  [[nodiscard]] bool full() const { return pending >= parameters.backlog; }
};

/// Who answers requests for a service.
class Listeners {
 public:
  /// EADDRINUSE: somebody listens there already.
  [[nodiscard]] Result<ListenerId> add(const ListenParameters& parameters);
  void remove(ListenerId id);

  [[nodiscard]] Listener* find(ListenerId id);
  /// For a request to `address`: who listens there, else who listens everywhere.
  [[nodiscard]] Listener* find(ServiceId service, bool datagram, const IpAddress& address);
  [[nodiscard]] std::size_t size() const { return listeners_.size(); }

 private:
  struct Service {
    ServiceId id{};
    bool datagram = false;
    friend constexpr auto operator<=>(const Service&, const Service&) = default;
  };
  [[nodiscard]] static Service service_of(const Listener& l) {
    return {l.parameters.service, l.parameters.datagram};
  }

  std::map<ListenerId, Listener> listeners_;
  std::multimap<Service, Listener*> by_service_;
  std::uint64_t next_ = 1;
};

}  // namespace verbena::cm
