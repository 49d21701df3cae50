#pragma once

// What a training gave, and how two of them compare.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

struct Training {
  std::vector<double> losses;  // before each step
  std::vector<double> weights;
  double seconds = 0;
};

/// The largest difference between two of the same length, relative to the value.
[[nodiscard]] inline double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    most = std::max(most, std::abs(a[i] - b[i]) / std::max(std::abs(a[i]), std::abs(b[i])));
  }
  return most;
}
[[nodiscard]] inline double distance(const Training& a, const Training& b) {
  return std::max(distance(a.losses, b.losses), distance(a.weights, b.weights));
}

// A table of five points of the loss curve.

inline constexpr std::uint64_t kColumns = 5;

[[nodiscard]] inline std::string heading(std::uint64_t steps) {
  std::string text = fmt::format("{:<12}", "loss at step");
  for (std::uint64_t i = 0; i < kColumns; ++i) {
    text += fmt::format(" {:>9}", i * (steps - 1) / (kColumns - 1));
  }
  return text + fmt::format(" {:>9}", "steps/s");
}

[[nodiscard]] inline std::string row(const std::string& who, const Training& training) {
  const std::uint64_t steps = training.losses.size();
  std::string text = fmt::format("{:<12}", who);
  for (std::uint64_t i = 0; i < kColumns; ++i) {
    text += fmt::format(" {:>9.6f}", training.losses[i * (steps - 1) / (kColumns - 1)]);
  }
  return text + fmt::format(" {:>9.0f}", static_cast<double>(steps) / training.seconds);
}
