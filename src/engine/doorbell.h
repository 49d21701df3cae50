#pragma once

#include <atomic>

namespace verbena::engine {

struct QueuePair;

/// Where a queue pair hangs while it has new posts that the engine hasn't seen.
struct Doorbell {
  std::atomic<bool> rung{false};
  QueuePair* next = nullptr;
};

/// Many threads ring, one takes everything. No locks.
class Doorbells {
 public:
  /// Any thread.
  void ring(QueuePair& qp);
  /// The engine: a list linked through Doorbell::next. Each may ring again from here on.
  [[nodiscard]] QueuePair* take_all();
  /// seq_cst, as ring(): who rings and then finds the engine taken, and who lets go of the engine
  /// and then looks here, must not both miss.
  [[nodiscard]] bool empty() const { return top_.load(std::memory_order_seq_cst) == nullptr; }

 private:
  std::atomic<QueuePair*> top_{nullptr};
};

}  // namespace verbena::engine
