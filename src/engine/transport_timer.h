#pragma once

#include <chrono>
#include <cstdint>

#include "base/time.h"

namespace verbena::engine {

/// How long a request waits for its answer before it counts as lost: IBA 9.7.6.1.3 allows one to
/// four times 4.096 µs × 2^timeout. The peer may be a thread that waits for a core, so it gets
/// three (decision 015). Not for 0, which switches the timer off.
[[nodiscard]] constexpr Duration transport_timeout(std::uint8_t code) {
  return 3 * std::chrono::nanoseconds{4096} * (std::int64_t{1} << (code & 0x1f));
}

}  // namespace verbena::engine
