#pragma once

// What threads of the program do about progress when they post and poll. Pure, as ProgressPolicy
// is, which decides for the NIC thread.

#include <cstdint>

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

/// A poller that found nothing so often in a row offers its core to others: the peer may be waiting
/// for it. Some 50 µs.
[[nodiscard]] constexpr bool poller_yields(unsigned vain_polls) {
  constexpr unsigned kVainPolls = 64;
  return vain_polls >= kVainPolls;
}

}  // namespace verbena::host
