#pragma once

// Retries of a REQ or SIDR_REQ that was refused because nobody listens at its port. The port may be
// without a listener only for a moment: servers close one and open the next. A Verbena peer waits
// for the next listener before it refuses; the kernel refuses at once, so the request is sent
// again. See decision 007.

#include <chrono>
#include <optional>

#include "base/time.h"

namespace verbena::cm {

class ListenerRetry {
 public:
  /// Counted from the first request. A refusal that arrives later than this is final: the peer, or
  /// the network, has waited long enough.
  static constexpr Duration kGiveUpAfter = std::chrono::milliseconds{50};
  static constexpr Duration kInterval = std::chrono::milliseconds{5};

  ListenerRetry() = default;
  explicit ListenerRetry(Instant sent) : give_up_at_{sent + kGiveUpAfter} {}

  /// Call for each refusal. When to retry; nullopt: the refusal is final.
  [[nodiscard]] std::optional<Instant> next(Instant now) const {
    if (now + kInterval > give_up_at_) return std::nullopt;
    return now + kInterval;
  }

 private:
  Instant give_up_at_{};
};

}  // namespace verbena::cm
