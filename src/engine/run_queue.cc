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

bool RunQueue::remove(QueuePair& qp) {
  if (!qp.runnable) return false;
  QueuePair* before = nullptr;
  QueuePair* at = first_;
  for (; at != nullptr && at != &qp; at = at->next_runnable) before = at;
  if (at == nullptr) return false;
  (before == nullptr ? first_ : before->next_runnable) = qp.next_runnable;
  if (last_ == &qp) last_ = before;
  qp.runnable = false;
  return true;
}

void RunQueue::append(RunQueue& other) {
  if (other.empty()) return;
  (last_ == nullptr ? first_ : last_->next_runnable) = other.first_;
  last_ = other.last_;
  other.first_ = other.last_ = nullptr;
}

}  // namespace verbena::engine
