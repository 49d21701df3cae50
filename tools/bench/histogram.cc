#include "tools/bench/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace verbena::bench {

// Below 32 ns each nanosecond is a bucket. Above, the five bits behind the leading one choose it.
std::uint32_t Histogram::bucket_of(std::uint64_t nanoseconds) {
  if (nanoseconds < kSteps) return static_cast<std::uint32_t>(nanoseconds);
  const unsigned shift = static_cast<unsigned>(std::bit_width(nanoseconds)) - 6;
  return shift * kSteps + static_cast<std::uint32_t>(nanoseconds >> shift);
}

std::uint64_t Histogram::upper_of(std::uint32_t bucket) {
  if (bucket < kSteps) return bucket;
  const unsigned shift = bucket / kSteps - 1;
  const std::uint64_t first = bucket - std::uint64_t{shift} * kSteps;
  return ((first + 1) << shift) - 1;
}

void Histogram::merge(const Histogram& other) {
  for (const auto& [bucket, count] : other.counts_) counts_[bucket] += count;
}

std::uint64_t Histogram::total() const {
  std::uint64_t sum = 0;
  for (const auto& [bucket, count] : counts_) sum += count;
  return sum;
}

std::uint64_t Histogram::quantile(double q) const {
  const std::uint64_t all = total();
  if (all == 0) return 0;
  const auto wanted = std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(std::ceil(q * static_cast<double>(all))));
  std::uint64_t seen = 0;
  for (const auto& [bucket, count] : counts_) {
    seen += count;
    if (seen >= wanted) return upper_of(bucket);
  }
  return upper_of(counts_.rbegin()->first);
}

std::map<std::uint64_t, std::uint64_t> Histogram::buckets() const {
  std::map<std::uint64_t, std::uint64_t> result;
  for (const auto& [bucket, count] : counts_) result[upper_of(bucket)] = count;
  return result;
}

}  // namespace verbena::bench
