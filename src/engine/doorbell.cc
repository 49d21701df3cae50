#include "engine/doorbell.h"

#include "engine/queue_pair.h"

namespace verbena::engine {

void Doorbells::ring(QueuePair& qp) {
  // The exchange also orders the post before it with the engine's look at the queue: the engine's
  // own exchange reads it, or this one reads the engine's.
  if (qp.doorbell.rung.exchange(true, std::memory_order_acq_rel)) return;
  qp.doorbell.next = top_.load(std::memory_order_relaxed);
  while (!top_.compare_exchange_weak(qp.doorbell.next, &qp, std::memory_order_seq_cst)) {
  }
}

QueuePair* Doorbells::take_all() { return top_.exchange(nullptr, std::memory_order_acq_rel); }

}  // namespace verbena::engine
