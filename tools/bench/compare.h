#pragma once

// What changed between two runs beyond noise.

#include <optional>
#include <string>
#include <vector>

#include "tools/bench/results.h"

namespace verbena::bench {

/// Differences up to this part don't matter.
inline constexpr double kLeastChange = 0.05;

struct Change {
  Spec spec;
  std::string figure;
  Interval before;
  Interval after;
  Verdict verdict = Verdict::unclear;

  /// The factor by which it got better; below 1: worse.
  [[nodiscard]] double gain() const;
  [[nodiscard]] bool is_slower() const;
};

struct Comparison {
  std::vector<Change> changes{};            // of RDMA: what both runs measured
  std::optional<double> bandwidth_drift{};  // how far bare programs moved: 0.1 is 10 %
  std::optional<double> latency_drift{};
  bool same_machine = true;

  [[nodiscard]] std::size_t slower() const;
};

/// A change counts if the intervals don't overlap, and if it is larger than kLeastChange and than
/// the drift: the median change of TCP, UDP and the bare loops, which have nothing of Verbena.
[[nodiscard]] Comparison compare(const Results& before, const Results& after);

/// For the terminal.
[[nodiscard]] std::string text_of(const Comparison& comparison, const std::string& name);

}  // namespace verbena::bench
