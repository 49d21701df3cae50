#include "tools/bench/statistics.h"

#include <algorithm>
#include <cmath>

namespace verbena::bench {
namespace {

double median_of(const std::vector<double>& sorted) {
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

}  // namespace

// The number of values below the true median is binomial with p = 1/2. The interval misses it if
// fewer than k values are below, or fewer than k above.
double coverage_of(std::size_t n, std::size_t k) {
  double term = std::pow(0.5, static_cast<double>(n));  // C(n, 0) / 2^n
  double below = 0;
  for (std::size_t i = 0; i < k; ++i) {
    below += term;
    term *= static_cast<double>(n - i) / static_cast<double>(i + 1);
  }
  return std::max(0.0, 1 - 2 * below);
}

Interval interval_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const std::size_t n = values.size();
  std::size_t k = 1;
  while (2 * (k + 1) <= n && coverage_of(n, k + 1) >= kConfidence) ++k;
  return {median_of(values), values[k - 1], values[n - k], coverage_of(n, k), n};
}

Verdict verdict_of_ratios(const Interval& ratios) {
  if (ratios.rounds < kLeastRounds) return Verdict::too_few;
  if (ratios.low > 1) return Verdict::greater;
  if (ratios.high < 1) return Verdict::less;
  return Verdict::unclear;
}

Verdict verdict_of_runs(const Interval& before, const Interval& after, double least) {
  if (std::min(before.rounds, after.rounds) < kLeastRounds) return Verdict::too_few;
  const bool apart = before.high < after.low || after.high < before.low;
  if (!apart) return Verdict::unclear;
  if (before.median <= 0 || after.median <= 0) return Verdict::unclear;
  const double change = std::abs(std::log(after.median / before.median));
  if (change < std::log1p(least)) return Verdict::same;
  return after.median > before.median ? Verdict::greater : Verdict::less;
}

}  // namespace verbena::bench
