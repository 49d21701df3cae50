#pragma once

#include <chrono>

#include "base/time.h"

namespace verbena::engine {

/// Does the program answer each message that it gets, as in a remote call or a ping-pong? Then the
/// acknowledgement can leave with the answer, in one datagram, instead of before it. TCP delays its
/// acknowledgements for the same reason. See docs/decisions/016-acknowledgements-wait.md.
class AckDelay {
 public:
  /// An answer that takes longer is not waited for.
  static constexpr Duration kLongest = std::chrono::microseconds{100};
  /// So many answers in a row are a habit.
  static constexpr unsigned kHabit = 4;

  /// A message has come. Returns how long its acknowledgement may wait.
  [[nodiscard]] Duration heard(Instant now) {
    if (heard_at_ != kNever) answers_ = 0;  // it wasn't the program's turn: this is a stream
    heard_at_ = now;
    return answers_ < kHabit ? Duration{0} : kLongest;
  }

  /// A message has come that wakes the program: its answer will take too long.
  void woken() {
    heard_at_ = kNever;
    answers_ = 0;
  }

  /// The program has sent something.
  void answered(Instant now) {
    if (heard_at_ == kNever) return;
    answers_ = now - heard_at_ > kLongest ? 0 : answers_ + 1;
    heard_at_ = kNever;
  }

 private:
  Instant heard_at_ = kNever;  // the message that awaits its answer
  unsigned answers_ = 0;       // in a row, each in time
};

}  // namespace verbena::engine
