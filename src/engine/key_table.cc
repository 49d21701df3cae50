#include "engine/key_table.h"

#include <utility>

namespace verbena::engine {

void KeyTable::insert(const MemoryRegion& region) {
  if (2 * (used_ + 1) > slots_.size()) grow();
  std::size_t i = home(region.key);
  while (slots_[i].key != Key{}) i = (i + 1) & (slots_.size() - 1);
  slots_[i] = region;
  ++used_;
}

const MemoryRegion* KeyTable::find(Key key) const {
  if (key == Key{}) return nullptr;
  for (std::size_t i = home(key); slots_[i].key != Key{}; i = (i + 1) & (slots_.size() - 1)) {
    if (slots_[i].key == key) return &slots_[i];
  }
  return nullptr;
}

MemoryRegion* KeyTable::find_window(Key key) {
  for (std::size_t i = home(key); slots_[i].key != Key{}; i = (i + 1) & (slots_.size() - 1)) {
    if (prefix(slots_[i].key) == prefix(key)) return &slots_[i];
  }
  return nullptr;
}

bool KeyTable::is_free(Key key) const {
  return prefix(key) != 0 && const_cast<KeyTable*>(this)->find_window(key) == nullptr;
}

bool KeyTable::erase(Key key) {
  const MemoryRegion* found = find(key);
  if (found == nullptr) return false;
  const std::size_t mask = slots_.size() - 1;
  auto hole = static_cast<std::size_t>(found - slots_.data());
  // Pull back the entries that probed past the hole, so that no search stops short at it.
  for (std::size_t i = (hole + 1) & mask; slots_[i].key != Key{}; i = (i + 1) & mask) {
    const std::size_t probed = (i - home(slots_[i].key)) & mask;
    if (probed >= ((i - hole) & mask)) {
      slots_[hole] = slots_[i];
      hole = i;
    }
  }
  slots_[hole] = MemoryRegion{};
  --used_;
  return true;
}

void KeyTable::grow() {
  auto old = std::exchange(slots_, std::vector<MemoryRegion>(slots_.size() * 2));
  used_ = 0;
  for (const MemoryRegion& r : old) {
    if (r.key != Key{}) insert(r);
  }
}

}  // namespace verbena::engine
