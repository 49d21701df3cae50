#include "engine/timer_queue.h"

#include <algorithm>
#include <utility>

#include "engine/queue_pair.h"

namespace verbena::engine {

void TimerQueue::make_room_for(std::size_t queue_pairs) {
  if (heap_.capacity() < queue_pairs) {
    heap_.reserve(std::max(2 * heap_.capacity(), queue_pairs));
  }
}

Instant TimerQueue::of(const QueuePair& qp) const {
  return qp.timer_place == kNowhere ? kNever : heap_[qp.timer_place].when;
}

void TimerQueue::put(std::size_t place, const Entry& entry) {
  heap_[place] = entry;
  entry.qp->timer_place = place;
}

void TimerQueue::rise(std::size_t place, const Entry& entry) {
  while (place > 0) {
    const std::size_t parent = (place - 1) / 2;
    if (heap_[parent].when <= entry.when) break;
    put(place, heap_[parent]);
    place = parent;
  }
  put(place, entry);
}

void TimerQueue::sink(std::size_t place, const Entry& entry) {
  for (;;) {
    std::size_t child = 2 * place + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && heap_[child + 1].when < heap_[child].when) ++child;
    if (entry.when <= heap_[child].when) break;
    put(place, heap_[child]);
    place = child;
  }
  put(place, entry);
}

void TimerQueue::set(QueuePair& qp, Instant when) {
  if (qp.timer_place == kNowhere) {
    heap_.push_back({when, &qp});
    qp.timer_place = heap_.size() - 1;
  }
  rise(qp.timer_place, {when, &qp});
}

QueuePair& TimerQueue::pop() {
  QueuePair& qp = *heap_.front().qp;
  remove(qp);
  return qp;
}

void TimerQueue::remove(QueuePair& qp) {
  const std::size_t place = std::exchange(qp.timer_place, kNowhere);
  if (place == kNowhere) return;
  const Entry last = heap_.back();
  heap_.pop_back();
  if (last.qp == &qp) return;
  // Whichever way it has to go from the hole.
  if (place > 0 && last.when < heap_[(place - 1) / 2].when) {
    rise(place, last);
  } else {
    sink(place, last);
  }
}

}  // namespace verbena::engine
