#include "tools/bench/ends/round_trips.h"

#include <algorithm>
#include <cmath>

namespace verbena::bench {

Sample sample_of_times(std::vector<std::uint32_t> nanoseconds) {
  Sample sample;
  if (nanoseconds.empty()) return sample;
  std::ranges::sort(nanoseconds);
  const auto count = nanoseconds.size();
  const auto quantile = [&](double q) {
    const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(count)));
    return nanoseconds[std::clamp<std::size_t>(rank, 1, count) - 1] / 1e3;
  };
  sample.figures = {{"p50_us", quantile(0.5)},
                    {"p99_us", quantile(0.99)},
                    {"p999_us", quantile(0.999)},
                    {"max_us", nanoseconds.back() / 1e3},
                    {"exchanges", static_cast<double>(count)}};
  for (const std::uint32_t time : nanoseconds) sample.times.add(time);
  return sample;
}

}  // namespace verbena::bench
