#pragma once

#include <cstdint>

namespace verbena::test {

/// What operator new and calloc of this thread do.
struct Shortage {
  bool active = false;
  bool lasting = false;    // all that follow fail, too
  std::uint32_t left = 0;  // allocations that still succeed
  bool struck = false;

  bool strikes() {
    if (!active) return false;
    if (left > 0) {
      --left;
      return false;
    }
    struck = true;
    active = lasting;
    return true;
  }
};

extern thread_local Shortage shortage;  // NOLINT: operator new has no other way to know

}  // namespace verbena::test
