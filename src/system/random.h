#pragma once

#include <sys/random.h>
#include <sys/types.h>

#include <cstdint>

namespace verbena {

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

}  // namespace verbena
