#pragma once

#include <malloc.h>

#include <atomic>
#include <cstddef>

namespace verbena::host {

/// Counts small objects and gives their memory back to the system after the last of many: malloc
/// would keep some kilobytes for each.
class HeapTrimmer {
 public:
  void created() {
    const std::size_t now = present_.fetch_add(1, std::memory_order_relaxed) + 1;
    std::size_t most = most_.load(std::memory_order_relaxed);
    while (most < now && !most_.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
    }
  }
  /// Call it without locks: after the last of many it takes some milliseconds.
  void destroyed() {
    constexpr std::size_t kMany = 1000;
    if (present_.fetch_sub(1, std::memory_order_relaxed) != 1) return;
    if (most_.exchange(0, std::memory_order_relaxed) >= kMany) malloc_trim(0);
  }

 private:
  std::atomic<std::size_t> present_{0};
  std::atomic<std::size_t> most_{0};
};

}  // namespace verbena::host
