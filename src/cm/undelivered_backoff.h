#pragma once

// Backoff of a REQ, SIDR_REQ or DREQ that the network reports as undelivered: no program of ours
// runs at the destination (its kernel answers "port unreachable"), or the host is not there. A
// report may be forged, or true only while the peer's program starts. So the message is retried
// with growing delays, and given up if reports still come after a while. See decision 010.

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/time.h"

namespace verbena::cm {

class UndeliveredBackoff {
 public:
  static constexpr Duration kGiveUpAfter = std::chrono::seconds{3};
  static constexpr unsigned kMinReports = 3;  // before giving up
  static constexpr Duration kFirstDelay = std::chrono::milliseconds{100};
  static constexpr Duration kMaxDelay = std::chrono::milliseconds{800};

  /// Call for each report. The delay until the next retry; nullopt: give up.
  [[nodiscard]] std::optional<Duration> next_delay(Instant now) {
    if (reports_ == 0) first_report_ = now;
    ++reports_;
    if (reports_ >= kMinReports && now - first_report_ >= kGiveUpAfter) return std::nullopt;
    return std::min(kMaxDelay, kFirstDelay * (1u << std::min(reports_ - 1, 8u)));
  }

 private:
  unsigned reports_ = 0;
  Instant first_report_{};
};

}  // namespace verbena::cm
