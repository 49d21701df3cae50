#pragma once

#include <chrono>

namespace verbena {

/// Time as the core sees it: a number handed in by the caller. It has no now() on purpose:
/// the host reads the system's clock, the simulator its own.
struct CoreClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<CoreClock>;
  static constexpr bool is_steady = true;
};

using Duration = CoreClock::duration;
using Instant = CoreClock::time_point;

inline constexpr Instant kNever = Instant::max();

}  // namespace verbena
