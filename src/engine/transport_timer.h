#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/time.h"

namespace verbena::engine {

/// How long a request waits for its answer before it counts as lost: IBA 9.7.6.1.3 allows one to
/// four times 4.096 µs × 2^timeout. The peer may be a thread that waits for a core, so it gets
/// three times that, but no more than its longest wait on top, and at least the time that it takes
/// to get one (decision 015). Not for 0, which switches the timer off.
[[nodiscard]] constexpr Duration transport_timeout(std::uint8_t code) {
  constexpr Duration kLongestWait = std::chrono::milliseconds{400};
  constexpr Duration kLeast = std::chrono::milliseconds{4};
  const Duration once = std::chrono::nanoseconds{4096} * (std::int64_t{1} << (code & 0x1f));
  return std::max(once + std::min(2 * once, kLongestWait), kLeast);
}

}  // namespace verbena::engine
