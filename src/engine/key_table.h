#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/numbers.h"
#include "engine/memory_region.h"

namespace verbena::engine {

/// Registrations by key: a flat, open-addressed table. Lookup cost doesn't depend on their
/// number. No two share the upper 24 bits, so that a window can change the lower 8.
class KeyTable {
 public:
  KeyTable() : slots_(16) {}

  /// The key is_free().
  void insert(const MemoryRegion& region);
  bool erase(Key key);
  [[nodiscard]] const MemoryRegion* find(Key key) const;
  [[nodiscard]] MemoryRegion* find(Key key) {
    return const_cast<MemoryRegion*>(std::as_const(*this).find(key));
  }
  /// Whatever has the same upper 24 bits: a window, whose lower 8 are its consumer's.
  [[nodiscard]] MemoryRegion* find_window(Key key);
  /// Nothing has the same upper 24 bits, and they are not all 0.
  [[nodiscard]] bool is_free(Key key) const;
  [[nodiscard]] std::size_t size() const { return used_; }
  /// `f` may change what an entry says, but not its key.
  template <typename F>
  void for_each(F f) {
    for (MemoryRegion& r : slots_) {
      if (r.key != Key{}) f(r);
    }
  }

 private:
  [[nodiscard]] static std::uint32_t prefix(Key key) { return key.value() >> 8; }
  [[nodiscard]] std::size_t home(Key key) const { return prefix(key) & (slots_.size() - 1); }
  void grow();

  std::vector<MemoryRegion> slots_;  // power of two; key 0 marks a free one
  std::size_t used_ = 0;
};

}  // namespace verbena::engine
