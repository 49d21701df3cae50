#pragma once

// Which block lies in which slot, who uses it, and which one goes when another needs its slot.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "labs/kv-cache/block.h"

class BlockPool {
 public:
  struct Taken {
    Place place;
    bool found = false;  // false: it has a slot now, and must be computed
  };

  explicit BlockPool(std::uint32_t slots) : slots_(slots) {}

  /// Each of these blocks gets one more user. nullopt: too few slots are unused.
  [[nodiscard]] std::optional<std::vector<Taken>> take(std::span<const std::uint64_t> hashes) {
    const auto is_here = [&](std::uint64_t hash) { return slot_of_.contains(hash); };
    const auto may_go = [&](const Slot& slot) {
      return slot.users == 0 && std::ranges::find(hashes, slot.hash) == hashes.end();
    };
    const auto missing = std::ranges::count_if(hashes, std::not_fn(is_here));
    if (std::ranges::count_if(slots_, may_go) < missing) return std::nullopt;
    ++now_;
    std::vector<Taken> taken;
    for (const std::uint64_t hash : hashes) {
      const bool found = is_here(hash);
      if (!found) replace(least_recently_used(may_go), hash);
      const std::uint32_t number = slot_of_.at(hash);
      Slot& slot = slots_.at(number);
      ++slot.users;
      slot.used_at = now_;
      taken.push_back({{number, slot.generation}, found});
    }
    return taken;
  }

  /// The block stays until another one needs its slot: the next prompt may begin with it.
  void give_back(std::uint32_t slot) { --slots_.at(slot).users; }

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::uint64_t used_at = 0;     // 0: never
    std::uint32_t generation = 0;  // 0: empty
    std::uint32_t users = 0;
  };

  template <class MayGo>
  [[nodiscard]] std::uint32_t least_recently_used(MayGo may_go) const {
    const Slot* oldest = nullptr;
    for (const Slot& slot : slots_) {
      if (may_go(slot) && (oldest == nullptr || slot.used_at < oldest->used_at)) oldest = &slot;
    }
    return static_cast<std::uint32_t>(oldest - slots_.data());
  }
  void replace(std::uint32_t number, std::uint64_t hash) {
    Slot& slot = slots_.at(number);
    if (slot.generation != 0) slot_of_.erase(slot.hash);
    slot.hash = hash;
    ++slot.generation;
    slot_of_[hash] = number;
  }

  std::vector<Slot> slots_;
  std::unordered_map<std::uint64_t, std::uint32_t> slot_of_;  // by hash
  std::uint64_t now_ = 0;                                     // calls of take()
};
