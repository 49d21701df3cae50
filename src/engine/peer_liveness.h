#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/time.h"
#include "packet/frame.h"

namespace verbena::engine {

/// Whether a peer that requests go to by a ring is dead, or only slow. Nothing is lost in a ring:
/// as long as the peer takes what lies before the request, or we have not read what lies before its
/// answer, no answer is overdue. Bytes are those of packet::Passage.
class PeerLiveness {
 public:
  /// Requests have left. `first`: nothing was outstanding before.
  void sent(const packet::Passage& p, bool first, Instant now) {
    if (first) {
      began_ = now;
      taken_ = p.taken;
      received_ = p.received;
      answered();
    }
    if (!oldest_at_) oldest_at_ = p.written;
  }

  /// sent() wants to know where the oldest request lies.
  [[nodiscard]] bool awaits_place() const { return !oldest_at_; }

  /// The oldest request is another one now.
  void answered() {
    oldest_at_.reset();
    answer_at_.reset();
  }

  /// The peer has taken something since the last call.
  [[nodiscard]] bool took_some(const packet::Passage& p) {
    return std::exchange(taken_, p.taken) != p.taken;
  }

  /// The transport timer has expired.
  [[nodiscard]] bool is_only_slow(const packet::Passage& p, Instant now) {
    const bool took = took_some(p);
    const bool gave = std::exchange(received_, p.received) != p.received;
    if (!oldest_at_) {
      oldest_at_ = p.written;
    } else if (answer_at_) {
      return p.unread && p.received < *answer_at_;
    } else if (p.taken >= *oldest_at_) {
      answer_at_ = p.received + p.back_room;
    }
    return took || gave || (p.unopened && now - began_ < kToOpen);
  }

 private:
  /// Where there are many processes to a core, all of them make their rings at the beginning.
  static constexpr Duration kToOpen = std::chrono::seconds{2};

  Instant began_{};                           // the first request after a time without any
  std::uint64_t taken_ = 0;                   // when the timer began, or later
  std::uint64_t received_ = 0;                // the same
  std::optional<std::uint64_t> oldest_at_{};  // the oldest request lies before this in the ring
  std::optional<std::uint64_t> answer_at_{};  // and its answer before this in the one back
};

}  // namespace verbena::engine
