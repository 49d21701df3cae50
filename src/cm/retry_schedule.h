#pragma once

// When a message that waits for its answer is sent again.
//
//   0     200 ms     1 s                     interval           2 * interval  …  16 * interval
//   sent  early      early                   counted            counted          given up
//
// The counted retries are those of IBA 12.9.8.7: as many as the REQ says, one each interval. The
// interval allows for a slow peer, so it is seconds long. That is too long if the message was lost,
// or if it waits in a stopped process of the peer's host: the early retries are for these cases.
// They change neither the counted retries nor the time of giving up, and a short interval has no
// room for them. See decision 012.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace verbena::cm {

class RetrySchedule {
 public:
  /// Early retries, counted from the first transmission.
  static constexpr std::array<Duration, 2> kEarly{std::chrono::milliseconds{200},
                                                  std::chrono::seconds{1}};

  /// A retry that arrives within this time of the first message is an early one, so it doesn't mean
  /// that the peer has waited too long. Half of the peer's interval leaves room for delays.
  [[nodiscard]] static constexpr Duration early_within(Duration interval) { return interval / 2; }

  RetrySchedule() = default;
  RetrySchedule(Instant sent, Duration interval, std::uint8_t retries)
      : sent_{sent}, interval_{interval}, counted_{sent + interval}, retries_left_{retries} {}

  [[nodiscard]] Instant next() const { return std::min({early(), extra_, counted_}); }

  /// Call when next() has come. True: send the message again, once, however many retries are
  /// overdue. False: give up.
  [[nodiscard]] bool advance(Instant now) {
    while (early() <= now) ++early_done_;
    if (extra_ <= now) extra_ = kNever;
    if (counted_ > now) return true;
    if (retries_left_ == 0) return false;
    --retries_left_;
    counted_ = now + interval_;
    return true;
  }

  /// One retry more than planned. It is not counted.
  void add_extra(Instant when) { extra_ = when; }

  /// The peer has the message (MRA) and needs `interval` to answer.
  void postpone(Instant now, Duration interval) {
    early_done_ = kEarly.size();
    extra_ = kNever;
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
  Instant extra_ = kNever;
  Instant counted_ = kNever;
  std::uint8_t retries_left_ = 0;
};

}  // namespace verbena::cm
