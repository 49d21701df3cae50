#pragma once

#include <cstdint>
#include <unordered_set>

#include "base/entropy.h"
#include "packet/comm_id.h"

namespace verbena::cm {

/// Hands out the communication ids of a slot: unpredictable, so that a stranger can't name a
/// connection that he hasn't seen.
class CommIds {
 public:
  CommIds(std::uint32_t slot, Entropy& entropy) : slot_{slot}, entropy_{entropy} {}

  /// Far fewer are in use than there are: a free one is found at once.
  [[nodiscard]] packet::CommId take() {
    for (;;) {
      const std::uint32_t index = entropy_.next() & packet::CommId::kIndexMask;
      const auto id = packet::CommId::of_slot(slot_, index);
      if (index != 0 && used_.insert(id.value()).second) return id;
    }
  }
  void give_back(packet::CommId id) { used_.erase(id.value()); }
  /// Not in use is not enough to speak for an id: it must be of our slot.
  [[nodiscard]] bool is_ours(packet::CommId id) const { return id.known() && id.slot() == slot_; }

 private:
  std::uint32_t slot_;
  Entropy& entropy_;
  std::unordered_set<std::uint32_t> used_;
};

}  // namespace verbena::cm
