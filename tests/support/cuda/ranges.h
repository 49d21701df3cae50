#pragma once

// The table of all ranges: for the files that allocate and free.

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "tests/support/cuda/memory.h"

namespace stand_in {

inline constexpr std::uint64_t kPage = 4096;
inline constexpr std::uint64_t kGranularity = std::uint64_t{2} << 20;  // cuMemCreate()'s

[[nodiscard]] constexpr std::uint64_t whole_pages(std::uint64_t size) {
  return (size + kPage - 1) / kPage * kPage;
}

/// Never destroyed.
struct Ranges {
  std::mutex lock;
  std::map<std::uint64_t, Range> by_start;
  /// Addresses stay reserved for ever, and are used again: as in reality, a stale address becomes
  /// that of other memory.
  std::map<std::uint64_t, std::vector<std::uint64_t>> free_addresses;  // by size
  std::uint64_t last_id = 0;

  // With the lock.
  [[nodiscard]] Range* of(std::uint64_t address);
  [[nodiscard]] bool overlaps(std::uint64_t address, std::uint64_t size) const;
  Range& add(Range range);
  /// 0: there are none.
  [[nodiscard]] std::uint64_t take_addresses(std::uint64_t size);
  void give_addresses_back(std::uint64_t address, std::uint64_t size);
};
[[nodiscard]] Ranges& ranges();

/// Takes the range out of the table, if one of this kind begins here.
[[nodiscard]] bool remove_range(std::uint64_t start, Kind kind, Range& removed);

}  // namespace stand_in
