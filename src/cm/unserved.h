#pragma once

// A request that is refused because nobody listens at its port. That may be so for a moment only:
// servers close a listener and open the next one at the same port. A peer of ours waits for it
// before it refuses; the kernel refuses at once, and so it is asked again. See decision 007.

#include <chrono>
#include <optional>

#include "base/time.h"

namespace verbena::cm {

class Unserved {
 public:
  /// From the first request. A refusal that took as long, at the peer or on its way, has waited
  /// enough.
  static constexpr Duration kPatience = std::chrono::milliseconds{50};
  static constexpr Duration kPause = std::chrono::milliseconds{5};

  Unserved() = default;
  explicit Unserved(Instant sent) : patience_over_{sent + kPatience} {}

  /// It was refused. When to repeat the request; nullopt: it is refused for good.
  [[nodiscard]] std::optional<Instant> again(Instant now) const {
    if (now + kPause > patience_over_) return std::nullopt;
    return now + kPause;
  }

 private:
  Instant patience_over_{};
};

}  // namespace verbena::cm
