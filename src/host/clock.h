#pragma once

#include <ctime>

#include "base/time.h"

namespace verbena::host {

[[nodiscard]] inline Instant now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return Instant{std::chrono::seconds{t.tv_sec} + std::chrono::nanoseconds{t.tv_nsec}};
}

}  // namespace verbena::host
