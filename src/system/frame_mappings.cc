#include "system/frame_mappings.h"

#include <map>
#include <mutex>
#include <new>

namespace verbena {
namespace {

struct Entry {
  FrameMapping mapping;
  bool asked = false;
  const FramePinner* pinned_by = nullptr;
};

struct Table {
  std::mutex mutex;
  std::map<std::uintptr_t, Entry> by_base;
  const Table* parents = nullptr;  // that of the process that forked this one
};

/// Never destroyed: mappings go until the very end of the process.
Table*& current() {
  static Table* the = new Table;
  return the;
}
Table& table() { return *current(); }

std::uintptr_t number(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }

}  // namespace

void note_frame_mapping(const FrameMapping& mapping) noexcept try {
  Table& t = table();
  const std::lock_guard held{t.mutex};
  t.by_base[number(mapping.base)] = {.mapping = mapping};
} catch (const std::bad_alloc&) {
}

void forget_frame_mapping(const std::uint8_t* base) noexcept {
  Table& t = table();
  const std::lock_guard held{t.mutex};
  const auto it = t.by_base.find(number(base));
  if (it == t.by_base.end()) return;
  if (it->second.pinned_by != nullptr) it->second.pinned_by->unpin(it->second.mapping);
  t.by_base.erase(it);
}

void pin_frame_mapping_of(const void* byte, const FramePinner& pinner) noexcept {
  Table& t = table();
  const std::lock_guard held{t.mutex};
  auto it = t.by_base.upper_bound(number(byte));
  if (it == t.by_base.begin()) return;
  Entry& entry = (--it)->second;
  if (entry.asked || number(byte) - it->first >= entry.mapping.bytes) return;
  entry.asked = true;
  if (pinner.pin(entry.mapping)) entry.pinned_by = &pinner;
}

void forget_frame_mappings_after_fork() noexcept {
  // Its mutex may be held by a thread that the child doesn't have, in the middle of a change.
  auto* const own = new (std::nothrow) Table;
  if (own == nullptr) return;  // the parent's will do: its mutex is held for moments only
  own->parents = current();
  current() = own;
}

}  // namespace verbena
