#pragma once

// What a piece of work cost this process in CPU time. Verbena's device works in threads of the
// process, so its work is in there; what a kernel does in interrupts for a card or a socket isn't.

#include <sys/resource.h>

namespace lab {

/// User and system time so far, of all threads.
[[nodiscard]] inline double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

}  // namespace lab
