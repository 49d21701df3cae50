#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace lab {

/// The smallest value that `share` of the values don't exceed.
[[nodiscard]] inline double percentile(std::vector<double> values, double share) {
  const auto last = static_cast<double>(values.size()) - 1;
  const auto rank = std::ceil(share * static_cast<double>(values.size())) - 1;
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(std::clamp(rank, 0.0, last));
  std::ranges::nth_element(values, nth);
  return *nth;
}

}  // namespace lab
