#pragma once

// Clock and CPU time of one end.

#include <sys/resource.h>

#include <chrono>
#include <cstdint>

namespace verbena::bench {

using Clock = std::chrono::steady_clock;

[[nodiscard]] inline double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// CPU time of this process so far, of all its threads, in user mode and in the kernel.
[[nodiscard]] inline double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// True once in `kEvery` calls at most, so that a loop that spins seldom makes a system call.
class Seldom {
 public:
  [[nodiscard]] bool due() { return (++calls_ & (kEvery - 1)) == 0; }

 private:
  static constexpr std::uint32_t kEvery = 4096;
  std::uint32_t calls_ = 0;
};

}  // namespace verbena::bench
