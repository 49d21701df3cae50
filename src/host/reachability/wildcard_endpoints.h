#pragma once

#include <algorithm>
#include <vector>

#include "base/ip_address.h"
#include "host/queue_pair.h"
#include "registry/port_binding.h"

namespace verbena::host {

/// Endpoints that didn't name an address: wildcard listeners, and datagram queue pairs, which are
/// reached at all addresses of their device. Addresses that come later are opened for them, too.
class WildcardEndpoints {
 public:
  /// For good: an address that is open to nobody costs nothing, and its requests are refused.
  void add_listeners(registry::Family family) {
    v4_ = v4_ || family != registry::Family::v6;
    v6_ = v6_ || family != registry::Family::v4;
  }
  [[nodiscard]] bool listens_at(const IpAddress& a) const { return a.is_v4() ? v4_ : v6_; }

  void add(QueuePair& qp) {
    if (std::find(pairs_.begin(), pairs_.end(), &qp) == pairs_.end()) pairs_.push_back(&qp);
  }
  void remove(const QueuePair& qp) { std::erase(pairs_, &qp); }
  [[nodiscard]] const std::vector<QueuePair*>& pairs() const { return pairs_; }

  [[nodiscard]] bool empty() const { return !v4_ && !v6_ && pairs_.empty(); }

 private:
  bool v4_ = false;
  bool v6_ = false;
  std::vector<QueuePair*> pairs_;
};

}  // namespace verbena::host
