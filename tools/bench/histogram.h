#pragma once

// Times in buckets whose width grows with the time: 32 for each doubling, so that a bucket is at
// most 3.2 % wide. Counts of several rounds add up.

#include <cstdint>
#include <map>

namespace verbena::bench {

class Histogram {
 public:
  void add(std::uint64_t nanoseconds) { ++counts_[bucket_of(nanoseconds)]; }
  void merge(const Histogram& other);
  /// A bucket that another program counted, by its upper end; see buckets().
  void add_bucket(std::uint64_t upper_ns, std::uint64_t count) {
    counts_[bucket_of(upper_ns)] += count;
  }

  [[nodiscard]] std::uint64_t total() const;
  /// The upper end of the bucket that holds the quantile `q` (0 to 1), in nanoseconds; 0 without
  /// any time.
  [[nodiscard]] std::uint64_t quantile(double q) const;
  /// The upper end of each bucket in nanoseconds, and its count; those that are empty are left out.
  [[nodiscard]] std::map<std::uint64_t, std::uint64_t> buckets() const;

  bool operator==(const Histogram&) const = default;

 private:
  static constexpr unsigned kSteps = 32;  // for each doubling

  static std::uint32_t bucket_of(std::uint64_t nanoseconds);
  /// The greatest time in the bucket.
  static std::uint64_t upper_of(std::uint32_t bucket);

  std::map<std::uint32_t, std::uint64_t> counts_;
};

}  // namespace verbena::bench
