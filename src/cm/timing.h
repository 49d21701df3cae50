#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/time.h"
#include "packet/cm_timeout.h"

namespace verbena::cm {

// A peer may ask for any wait from 4 us to 2.4 hours. Within these bounds it gets it: it can make
// us neither a source of floods nor keep a connection in suspense for days.
inline constexpr Duration kShortestWait = std::chrono::milliseconds{1};
inline constexpr packet::CmTimeout kLongestTimeout{24};  // 69 s, the kernel's own MRA
inline constexpr Duration kLongestWait = kLongestTimeout.duration();

[[nodiscard]] constexpr Duration bounded(Duration d) {
  return std::clamp(d, kShortestWait, kLongestWait);
}

/// How long a REQ may wait for its answer: the peer's time, and the way there and back, which is
/// what the ACK timeout stands for.
[[nodiscard]] constexpr Duration request_interval(packet::CmTimeout response,
                                                  packet::CmTimeout ack) {
  return bounded(response.duration() + ack.duration());
}

/// No retry of a request is expected after this time.
[[nodiscard]] constexpr Duration request_span(Duration interval, std::uint8_t max_retries) {
  constexpr Duration kLongestSpan = std::chrono::minutes{20};
  return std::min(kLongestSpan, interval * (max_retries + 1));
}

}  // namespace verbena::cm
