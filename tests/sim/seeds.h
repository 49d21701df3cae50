#pragma once

// Property tests: one random program for each seed. SEED=n starts elsewhere, SEEDS=n runs more.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

#include "tests/sim/world.h"

namespace verbena::sim {

/// What a program is made of; the network draws from a source of its own.
class Chance {
 public:
  explicit Chance(std::uint64_t seed) : random_{seed} {}
  /// 0 … n-1.
  std::uint32_t pick(std::uint32_t n) {
    return std::uniform_int_distribution<std::uint32_t>{0, n - 1}(random_);
  }
  bool one_in(std::uint32_t n) { return pick(n) == 0; }
  std::uint64_t word() { return random_(); }
  std::uint8_t byte() { return static_cast<std::uint8_t>(random_()); }

 private:
  std::mt19937_64 random_;
};

/// Loses nothing and keeps the order.
inline Link faithful_link(Chance& chance) {
  return {.delay = std::chrono::microseconds{1 + chance.pick(200)}};
}

inline Link random_link(Chance& chance) {
  Link link = faithful_link(chance);
  if (chance.one_in(2)) link.loss_ppm = chance.pick(100'000);
  if (chance.one_in(2)) link.duplicate_ppm = chance.pick(50'000);
  if (chance.one_in(3)) link.jitter = std::chrono::microseconds{1 + chance.pick(100)};
  return link;
}

/// Runs `program(seed)` for each; the first that fails says how to run it alone.
template <typename Program>
void each_seed(std::uint64_t by_default, Program program) {
  const auto setting = [](const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
  };
  const std::uint64_t first = setting("SEED", 1);
  const std::uint64_t seeds = setting("SEEDS", first == 1 ? by_default : 1);
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    program(seed);
    if (testing::Test::HasFailure()) {
      GTEST_FAIL() << "replay: SEED=" << seed << " SEEDS=1 " << testing::internal::GetArgvs()[0]
                   << " --gtest_filter=" << test.test_suite_name() << "." << test.name();
    }
  }
}

}  // namespace verbena::sim
