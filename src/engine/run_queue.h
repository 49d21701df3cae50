#pragma once

namespace verbena::engine {

struct QueuePair;

/// Queue pairs that have something to send, in turn. Linked through the queue pairs, so that
/// joining never needs memory.
class RunQueue {
 public:
  [[nodiscard]] bool empty() const { return first_ == nullptr; }
  /// Needs !empty().
  [[nodiscard]] QueuePair& front() const { return *first_; }
  /// At the end, unless it is in it.
  void push(QueuePair& qp);
  void pop();
  void remove(QueuePair& qp);

 private:
  QueuePair* first_ = nullptr;
  QueuePair* last_ = nullptr;
};

}  // namespace verbena::engine
