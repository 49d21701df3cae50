#pragma once

// Times of one phase, and what matters of them.

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "labs/common/percentile.h"

struct Phase {
  std::string name;
  std::vector<double> latencies{};  // microseconds, from when a batch was due to its credit
  std::uint64_t held_up = 0;        // batches that found the ring full
  double waited = 0;                // seconds in which it was
  std::uint64_t most_in_ring = 0;   // batches that were written and not yet consumed
};

[[nodiscard]] inline std::string heading() {
  return fmt::format("{:<8} {:>8} {:>10} {:>10} {:>10} {:>8} {:>10} {:>8}", "consumer", "batches",
                     "p50 us", "p99 us", "p99.9 us", "in ring", "held up", "ms");
}
[[nodiscard]] inline std::string row(const Phase& phase) {
  const auto at = [&](double share) { return lab::percentile(phase.latencies, share); };
  return fmt::format("{:<8} {:>8} {:>10.0f} {:>10.0f} {:>10.0f} {:>8} {:>10} {:>8.1f}", phase.name,
                     phase.latencies.size(), at(0.5), at(0.99), at(0.999), phase.most_in_ring,
                     phase.held_up, phase.waited * 1e3);
}
