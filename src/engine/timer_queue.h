#pragma once

#include <cstddef>
#include <vector>

#include "base/time.h"

namespace verbena::engine {

struct QueuePair;

/// When to look at which queue pair: a heap in which each stands once at most, so that setting a
/// timer never needs memory.
class TimerQueue {
 public:
  /// Of a queue pair that has none.
  static constexpr std::size_t kNowhere = ~std::size_t{0};

  /// So many queue pairs can have a timer. The one thing here that may throw.
  void make_room_for(std::size_t queue_pairs);

  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] Instant first() const { return heap_.empty() ? kNever : heap_.front().when; }
  /// When its timer is set to; kNever: it has none.
  [[nodiscard]] Instant of(const QueuePair& qp) const;
  /// Sets the timer, or moves it to an earlier instant.
  void set(QueuePair& qp, Instant when);
  /// Takes the first one off. Needs !empty().
  QueuePair& pop();
  void remove(QueuePair& qp);

 private:
  struct Entry {
    Instant when;
    QueuePair* qp;
  };
  void put(std::size_t place, const Entry& entry);
  void rise(std::size_t place, const Entry& entry);
  void sink(std::size_t place, const Entry& entry);

  std::vector<Entry> heap_;
};

}  // namespace verbena::engine
