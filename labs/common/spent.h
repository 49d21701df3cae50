#pragma once

// What a stretch of a program costs: time, CPU time, wake-ups.

#include <sys/resource.h>

#include <chrono>

namespace lab {

/// Of one thread, or of the whole process (Verbena's device works inside it).
struct Spent {
  std::chrono::duration<double, std::micro> wall{};
  std::chrono::duration<double, std::micro> cpu{};
  long wake_ups = 0;  // times it had gone to sleep

  friend Spent operator-(const Spent& a, const Spent& b) {
    return {a.wall - b.wall, a.cpu - b.cpu, a.wake_ups - b.wake_ups};
  }
  friend Spent operator+(const Spent& a, const Spent& b) {
    return {a.wall + b.wall, a.cpu + b.cpu, a.wake_ups + b.wake_ups};
  }
};

namespace detail {
[[nodiscard]] inline Spent spent_by(int who) {
  rusage used{};
  getrusage(who, &used);
  const auto time = [](const timeval& t) {
    return std::chrono::seconds{t.tv_sec} + std::chrono::microseconds{t.tv_usec};
  };
  return {std::chrono::steady_clock::now().time_since_epoch(),
          time(used.ru_utime) + time(used.ru_stime), used.ru_nvcsw};
}
}  // namespace detail

/// So far; the difference of two calls is what lies between them.
[[nodiscard]] inline Spent spent_by_thread() { return detail::spent_by(RUSAGE_THREAD); }
[[nodiscard]] inline Spent spent_by_process() { return detail::spent_by(RUSAGE_SELF); }

}  // namespace lab
