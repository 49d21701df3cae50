#pragma once

#include <time.h>

#include "base/time.h"

namespace verbena {

/// CLOCK_MONOTONIC: the same in every process of the machine.
inline Instant monotonic_now() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return Instant{std::chrono::seconds{t.tv_sec} + std::chrono::nanoseconds{t.tv_nsec}};
}

}  // namespace verbena
