#pragma once

// When a message that waits for its answer is repeated.
//
//   0     200 ms     1 s                     interval           2 * interval  …  16 * interval
//   sent  early      early                   counted            counted          given up
//
// The counted repetitions are those of IBA 12.9.8.7: as many as the REQ says, an interval apart.
// The interval allows for a slow peer, and so it is seconds: too long when the message was simply
// lost, or lies at a process of the peer's host that is stopped. The early ones are for that. They
// change nothing about the counted ones, nor about when the peer is given up; a short interval has
// no room for them. See decision 012.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace verbena::cm {

class Repetitions {
 public:
  /// After the message was sent first.
  static constexpr std::array<Duration, 2> kEarly{std::chrono::milliseconds{200},
                                                  std::chrono::seconds{1}};

  /// What is repeated within this time of the first is repeated early: the peer doesn't wait for
  /// longer than it meant to, yet. Half of its interval, so that delays blur nothing.
  [[nodiscard]] static constexpr Duration early_within(Duration interval) { return interval / 2; }

  Repetitions() = default;
  Repetitions(Instant sent, Duration interval, std::uint8_t retries)
      : sent_{sent}, interval_{interval}, counted_{sent + interval}, retries_left_{retries} {}

  [[nodiscard]] Instant next() const { return std::min({early(), asked_, counted_}); }

  /// next() has come. Whether to repeat the message; false: the peer is given up. What is overdue
  /// is repeated once.
  [[nodiscard]] bool again(Instant now) {
    while (early() <= now) ++early_done_;
    if (asked_ <= now) asked_ = kNever;
    if (counted_ > now) return true;
    if (retries_left_ == 0) return false;
    --retries_left_;
    counted_ = now + interval_;
    return true;
  }

  /// Once more, besides the others.
  void ask(Instant when) { asked_ = when; }

  /// The peer has the message, and needs this long for the answer.
  void wait_longer(Instant now, Duration interval) {
    early_done_ = kEarly.size();
    asked_ = kNever;
    interval_ = interval;
    counted_ = now + interval;
  }

 private:
  [[nodiscard]] Instant early() const {
    if (early_done_ == kEarly.size()) return kNever;
    const Duration after = kEarly[early_done_];
    return after <= early_within(interval_) ? sent_ + after : kNever;
  }

  Instant sent_{};
  Duration interval_{};
  std::size_t early_done_ = 0;
  Instant asked_ = kNever;
  Instant counted_ = kNever;
  std::uint8_t retries_left_ = 0;
};

}  // namespace verbena::cm
