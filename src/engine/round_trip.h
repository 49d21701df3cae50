#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/psn.h"
#include "base/time.h"

namespace verbena::engine {

/// Smoothed round-trip time (RFC 6298), from one timed packet at a time. A packet that was sent
/// twice is not timed (Karn).
class RoundTrip {
 public:
  void sent(Psn psn, Instant now) {
    if (!timed_) timed_ = Timed{psn, now};
  }
  void acknowledged(Psn upto, Instant now) {
    if (!timed_ || distance(upto, timed_->psn) < 0) return;
    const Duration sample = now - timed_->at;
    timed_.reset();
    if (!known_) {
      known_ = true;
      smoothed_ = sample;
      variation_ = sample / 2;
      return;
    }
    const Duration error = sample > smoothed_ ? sample - smoothed_ : smoothed_ - sample;
    variation_ += (error - variation_) / 4;
    smoothed_ += (sample - smoothed_) / 8;
  }
  void went_back() { timed_.reset(); }

  /// After this long without an answer, a loss is likely.
  [[nodiscard]] Duration patience() const {
    return std::max<Duration>(smoothed_ + 4 * variation_, std::chrono::milliseconds{1});
  }

 private:
  struct Timed {
    Psn psn;
    Instant at;
  };
  std::optional<Timed> timed_;
  bool known_ = false;
  Duration smoothed_ = std::chrono::milliseconds{10};
  Duration variation_ = std::chrono::milliseconds{5};
};

}  // namespace verbena::engine
