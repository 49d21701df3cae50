#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/psn.h"
#include "base/time.h"

namespace verbena::engine {

/// Smoothed round-trip time (RFC 6298), from one timed packet at a time. A packet that was sent
/// twice is not timed (Karn): nobody knows which copy was answered.
class RoundTrip {
 public:
  /// A packet left for the first time.
  void sent(Psn psn, Instant now) {
    if (!timed_) timed_ = Timed{psn, now};
  }
  /// True: that was the timed one, and timeout() is up to date.
  bool acknowledged(Psn upto, Instant now) {
    if (!timed_ || distance(upto, timed_->psn) < 0) return false;
    const Duration sample = now - timed_->at;
    timed_.reset();
    if (!known_) {
      known_ = true;
      smoothed_ = sample;
      variation_ = sample / 2;
      return true;
    }
    const Duration error = sample > smoothed_ ? sample - smoothed_ : smoothed_ - sample;
    variation_ += (error - variation_) / 4;
    smoothed_ += (sample - smoothed_) / 8;
    return true;
  }
  void went_back() { timed_.reset(); }

  /// After this long without an answer, a loss is likely.
  [[nodiscard]] Duration timeout() const {
    return std::max<Duration>(smoothed_ + 4 * variation_, std::chrono::milliseconds{1});
  }

 private:
  struct Timed {
    Psn psn;
    Instant at;
  };
  std::optional<Timed> timed_;
  bool known_ = false;
  // Before the first sample: a timeout of 3 ms.
  Duration smoothed_ = std::chrono::milliseconds{1};
  Duration variation_ = std::chrono::microseconds{500};
};

}  // namespace verbena::engine
