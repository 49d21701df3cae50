#pragma once

// Logistic regression on generated data, so cut up that it doesn't matter who computes what.
//
// Adding floating-point numbers in another order gives another sum. So the order is fixed: the
// samples belong to kShards shards, a shard's gradient is always summed in the order of its
// samples, and the shards are always added in their order. A worker computes whole shards. Then
// the sums, and the model, are the same for any number of workers, and for one process.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "labs/common/pattern.h"

class Model {
 public:
  static constexpr std::size_t kShards = 16;
  static constexpr std::size_t kSamples = 1024;

  explicit Model(std::size_t features) : features_{features}, row_(features) {
    for (std::size_t j = 0; j < features; ++j) truth_.push_back(uniform(kSamples, j));
  }

  [[nodiscard]] std::size_t features() const { return features_; }
  /// Doubles of what a shard adds up to: the gradient, then the loss.
  [[nodiscard]] std::size_t shard_size() const { return features_ + 1; }

  /// One shard's part, with these weights.
  void compute(std::size_t shard, std::span<const double> weights, std::span<double> sums) {
    for (double& sum : sums) sum = 0;
    const std::size_t end = (shard + 1) * kSamples / kShards;
    for (std::size_t i = shard * kSamples / kShards; i < end; ++i) add_sample(i, weights, sums);
  }

  /// A step down the gradient, from all shards' parts, one after the other. Returns the loss.
  double step(std::span<double> weights, std::span<const double> all_sums) const {
    // A longer step would overshoot: the bound is the largest eigenvalue of the data.
    const double rate = 4.0 * static_cast<double>(std::min<std::size_t>(features_, 16));
    std::vector<double> total(shard_size());
    for (std::size_t shard = 0; shard < kShards; ++shard) {
      const auto part = all_sums.subspan(shard * shard_size(), shard_size());
      for (std::size_t j = 0; j < shard_size(); ++j) total[j] += part[j];
    }
    for (std::size_t j = 0; j < features_; ++j) weights[j] -= rate * total[j] / kSamples;
    return total[features_] / kSamples;
  }

 private:
  /// In [-1, 1), always the same for the same place.
  [[nodiscard]] static double uniform(std::size_t i, std::size_t j) {
    return static_cast<double>(lab::pattern_word(i, j) >> 11) * 0x1p-52 - 1.0;
  }

  void add_sample(std::size_t i, std::span<const double> weights, std::span<double> sums) {
    const double scale = std::sqrt(3.0 / static_cast<double>(features_));  // rows of length ~1
    double guess = 0, side = 0;
    for (std::size_t j = 0; j < features_; ++j) {
      row_[j] = scale * uniform(i, j);
      guess += row_[j] * weights[j];
      side += row_[j] * truth_[j];
    }
    const double label = side > 0 ? 1 : 0;
    const double error = 1 / (1 + std::exp(-guess)) - label;
    for (std::size_t j = 0; j < features_; ++j) sums[j] += error * row_[j];
    sums[features_] += std::log1p(std::exp(label > 0 ? -guess : guess));
  }

  std::size_t features_;
  std::vector<double> row_;
  std::vector<double> truth_;  // on which side of it a sample lies is its label
};
