#include "engine/copies.h"

namespace verbena::engine {

bool Copies::scatter(std::span<const std::uint8_t> from, std::span<const Segment> into) {
  if (waiting_.empty() && !owner_.may_wait) return dma_.scatter(from, into);
  if (waiting_.size() + into.size() > kMost && !finish()) return false;
  if (into.size() > kMost) return dma_.scatter(from, into);
  for (const Segment& s : into) {
    waiting_.push_back({from.first(s.length), s.address});
    from = from.subspan(s.length);
  }
  return owner_.may_wait || finish();
}

bool Copies::finish() {
  if (waiting_.empty()) return true;
  const bool done = dma_.scatter_all(waiting_);
  waiting_.clear();
  return done;
}

}  // namespace verbena::engine
