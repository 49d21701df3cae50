#pragma once

// Small pieces of the system that several parts of the wire need.

#include <sys/random.h>
#include <time.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "base/result.h"
#include "base/time.h"

namespace verbena::wire {

/// "what: text of code". `what` names the call and the object.
inline Error system_error(int code, const std::string& what) {
  return {code, what + ": " + std::strerror(code)};
}

inline Error system_error(int code, const std::string& what, const std::string& next_step) {
  return {code, what + ": " + std::strerror(code) + "; " + next_step};
}

/// CLOCK_MONOTONIC: the same in every process of the machine.
inline Instant monotonic_now() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return Instant{std::chrono::seconds{t.tv_sec} + std::chrono::nanoseconds{t.tv_nsec}};
}

template <typename T>
T random_number() {
  T value{};
  // Never short and never interrupted for so few bytes, once the pool is initialised.
  while (::getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
  }
  return value;
}

/// For <random> and std::shuffle.
struct SystemRandom {
  using result_type = std::uint32_t;
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return UINT32_MAX; }
  result_type operator()() { return random_number<result_type>(); }
};

}  // namespace verbena::wire
