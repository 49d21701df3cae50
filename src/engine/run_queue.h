#pragma once

namespace verbena::engine {

struct QueuePair;

/// Queue pairs that have something to send, in turn. Linked through the queue pairs, so that
/// joining never needs memory; a queue pair is in one queue at most.
class RunQueue {
 public:
  [[nodiscard]] bool empty() const { return first_ == nullptr; }
  /// Needs !empty().
  [[nodiscard]] QueuePair& front() const { return *first_; }
  /// At the end, unless it is in one already: this or another.
  void push(QueuePair& qp);
  void pop();
  /// False: it isn't here.
  bool remove(QueuePair& qp);
  /// All of `other`, which is empty then.
  void append(RunQueue& other);

 private:
  QueuePair* first_ = nullptr;
  QueuePair* last_ = nullptr;
};

}  // namespace verbena::engine
