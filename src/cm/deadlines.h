#pragma once

#include <optional>
#include <set>
#include <utility>

#include "base/time.h"

namespace verbena::cm {

/// Who is to be woken when. Each at most once.
template <typename Id>
class Deadlines {
 public:
  void add(Instant when, const Id& id) {
    if (when != kNever) order_.emplace(when, id);
  }
  void remove(Instant when, const Id& id) { order_.erase({when, id}); }
  [[nodiscard]] Instant next() const { return order_.empty() ? kNever : order_.begin()->first; }
  /// The first that is due, if any. It stays until it is removed.
  [[nodiscard]] std::optional<Id> due(Instant now) const {
    if (next() > now) return std::nullopt;
    return order_.begin()->second;
  }
  [[nodiscard]] std::optional<Id> first() const {
    if (order_.empty()) return std::nullopt;
    return order_.begin()->second;
  }

 private:
  std::set<std::pair<Instant, Id>> order_;
};

}  // namespace verbena::cm
