#include "engine/run_queue.h"

#include "engine/queue_pair.h"

namespace verbena::engine {

void RunQueue::push(QueuePair& qp) {
  if (qp.runnable) return;
  qp.runnable = true;
  qp.next_runnable = nullptr;
  (last_ == nullptr ? first_ : last_->next_runnable) = &qp;
  last_ = &qp;
}

void RunQueue::pop() {
  first_->runnable = false;
  first_ = first_->next_runnable;
  if (first_ == nullptr) last_ = nullptr;
}

void RunQueue::remove(QueuePair& qp) {
  if (!qp.runnable) return;
  QueuePair* before = nullptr;
  for (QueuePair* at = first_; at != &qp; at = at->next_runnable) before = at;
  (before == nullptr ? first_ : before->next_runnable) = qp.next_runnable;
  if (last_ == &qp) last_ = before;
  qp.runnable = false;
}

}  // namespace verbena::engine
