#pragma once

// Times of one phase, and what matters of them.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

struct Phase {
  std::string name;
  std::vector<double> latencies{};  // microseconds, from when a batch was due to its credit
  std::uint64_t held_up = 0;        // batches that found the ring full
  double waited = 0;                // seconds in which it was
  std::uint64_t most_in_ring = 0;   // batches that were written and not yet consumed
};

/// The smallest value that `share` of the values don't exceed.
[[nodiscard]] inline double percentile(std::vector<double> values, double share) {
  const auto last = static_cast<double>(values.size()) - 1;
  const auto rank = std::ceil(share * static_cast<double>(values.size())) - 1;
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(std::clamp(rank, 0.0, last));
  std::ranges::nth_element(values, nth);
  return *nth;
}

[[nodiscard]] inline std::string heading() {
  return fmt::format("{:<8} {:>8} {:>10} {:>10} {:>10} {:>8} {:>10} {:>8}", "consumer", "batches",
                     "p50 us", "p99 us", "p99.9 us", "in ring", "held up", "ms");
}
[[nodiscard]] inline std::string row(const Phase& phase) {
  const auto at = [&](double share) { return percentile(phase.latencies, share); };
  return fmt::format("{:<8} {:>8} {:>10.0f} {:>10.0f} {:>10.0f} {:>8} {:>10} {:>8.1f}", phase.name,
                     phase.latencies.size(), at(0.5), at(0.99), at(0.999), phase.most_in_ring,
                     phase.held_up, phase.waited * 1e3);
}
