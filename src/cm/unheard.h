#pragma once

// A request, or a good-bye, that reaches nobody, as the network says: no program of ours runs at
// that address (the host's kernel answers "port unreachable"), or no such host is there. The word
// of the network may be forged, and may be true for a moment only, while the peer's program starts.
// So the request is repeated soon and more often, and given up when it is still so after a while.
// See decision 010.

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/time.h"
#include "cm/route.h"

namespace verbena::cm {

class Unheard {
 public:
  static constexpr Duration kPatience = std::chrono::seconds{3};
  static constexpr unsigned kLeast = 3;  // times that it must be said
  static constexpr Duration kFirst = std::chrono::milliseconds{100};
  static constexpr Duration kLongest = std::chrono::milliseconds{800};

  /// It was said once more. When to repeat the request; nullopt: give it up.
  [[nodiscard]] std::optional<Duration> again(Instant now) {
    if (times_ == 0) since_ = now;
    ++times_;
    if (times_ >= kLeast && now - since_ >= kPatience) return std::nullopt;
    return std::min(kLongest, kFirst * (1u << std::min(times_ - 1, 8u)));
  }

 private:
  unsigned times_ = 0;
  Instant since_{};
};

/// Whether `back` is `sent`, come back: nobody else knows its communication id.
[[nodiscard]] inline bool is_ours(const OutgoingMad& sent, const IncomingMad& back) {
  return sent.route.local == back.route.local && sent.route.remote == back.route.remote &&
         std::equal(sent.bytes.begin(), sent.bytes.end(), back.bytes.begin(), back.bytes.end());
}

}  // namespace verbena::cm
