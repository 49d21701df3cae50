#pragma once

// What a few rounds of a noisy measurement tell. Pure functions.
//
// The intervals are those of order statistics: between the k-th smallest and the k-th greatest of n
// values lies the median of what was measured with a probability that depends on n and k only, and
// on no assumption about the noise. Six values are the fewest that reach 95 % (k = 1: 96.9 %).

#include <cstddef>
#include <vector>

namespace verbena::bench {

inline constexpr double kConfidence = 0.95;
/// With fewer values nothing is concluded: the interval of five has 93.8 %, that of four 87.5 %.
inline constexpr std::size_t kLeastRounds = 5;

struct Interval {
  double median = 0;
  double low = 0;
  double high = 0;
  double coverage = 0;  // the probability that it holds the true median
  std::size_t rounds = 0;
};

/// Probability that the true median lies between the k-th smallest and the k-th greatest of n
/// values.
[[nodiscard]] double coverage_of(std::size_t n, std::size_t k);

/// The shortest interval with at least kConfidence; of fewer than six values, from the smallest to
/// the greatest. All zero without a value.
[[nodiscard]] Interval interval_of(std::vector<double> values);

enum class Verdict {
  too_few,  // rounds
  unclear,  // the noise is larger than the difference
  same,     // the difference is too small to matter
  greater,
  less,
};

/// Is the first greater than the second? Each round measured both, one after the other, and gives
/// one ratio.
[[nodiscard]] Verdict verdict_of_ratios(const Interval& ratios);

/// Compares a figure of two runs. They differ if their intervals don't overlap, and their medians
/// differ by more than `least` (0.05: 5 %).
[[nodiscard]] Verdict verdict_of_runs(const Interval& before, const Interval& after, double least);

}  // namespace verbena::bench
