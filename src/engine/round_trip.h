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
    if (least_ > kLeast && now - raised_at_ > kForget) raise_to(least_ / 2, now);
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

  /// What was sent again had not been lost. The peer shares its core with others: it answers at
  /// once for a while, and then not for a turn of the scheduler, which no variation foretells.
  void was_late(Instant now) { raise_to(2 * least_, now); }

  /// After this long without an answer, a loss is likely.
  [[nodiscard]] Duration timeout() const {
    return std::max<Duration>(smoothed_ + 4 * variation_, least_);
  }

 private:
  static constexpr Duration kLeast = std::chrono::milliseconds{1};
  static constexpr Duration kMostOfLeast = std::chrono::milliseconds{32};
  static constexpr Duration kForget = std::chrono::seconds{1};

  void raise_to(Duration least, Instant now) {
    least_ = std::clamp(least, kLeast, kMostOfLeast);
    raised_at_ = now;
  }

  struct Timed {
    Psn psn;
    Instant at;
  };
  std::optional<Timed> timed_;
  bool known_ = false;
  // Before the first sample: a timeout of 3 ms.
  Duration smoothed_ = std::chrono::milliseconds{1};
  Duration variation_ = std::chrono::microseconds{500};
  Duration least_ = kLeast;
  Instant raised_at_{};
};

}  // namespace verbena::engine
