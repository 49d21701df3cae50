#pragma once

// What threads of the program do about progress when they post and poll. Pure, as ProgressPolicy
// is, which decides for the NIC thread.

#include <cstdint>

#include "base/time.h"

namespace verbena::host {

/// Of one send queue.
struct PostedRequests {
  std::uint64_t unfinished = 0;  // posted, and not completed
  std::uint64_t waiting = 0;     // of these, posted since the queue was told to send last
};

/// After posting: what was posted may leave with more, by the next call, because the peer is busy
/// with earlier requests. See docs/decisions/013-posts-wait-for-more.md.
[[nodiscard]] constexpr bool posts_may_wait(const PostedRequests& r) {
  constexpr std::uint64_t kBusyWith = 8, kMostWaiting = 16;
  return r.unfinished > kBusyWith && r.waiting < kMostWaiting;
}

/// Of a thread that polls, whatever queues. When it has found nothing for so long, it offers its
/// core to others before each poll: the peer may be waiting for it.
class PollerPatience {
 public:
  static constexpr Duration kPatience = std::chrono::microseconds{50};

  [[nodiscard]] constexpr bool is_over() const { return over_; }
  constexpr void found() {
    vain_since_ = kNever;
    over_ = false;
  }
  constexpr void found_nothing(Instant now) {
    if (vain_since_ == kNever) vain_since_ = now;
    over_ = now - vain_since_ >= kPatience;
  }

 private:
  Instant vain_since_ = kNever;
  bool over_ = false;
};

}  // namespace verbena::host
