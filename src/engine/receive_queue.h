#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "base/spin_lock.h"
#include "engine/work_request.h"

namespace verbena::engine {

/// Receives in the order of posting. Threads of the program post, the responder takes.
class ReceiveQueue {
 public:
  struct Wqe {
    std::uint64_t wr_id = 0;
    std::uint32_t length = 0;
    std::uint32_t sge_count = 0;
  };

  ReceiveQueue(std::uint32_t depth, std::uint32_t max_sge);

  [[nodiscard]] std::uint32_t depth() const { return static_cast<std::uint32_t>(wqes_.size()); }
  [[nodiscard]] std::uint32_t max_sge() const { return max_sge_; }

  /// Any thread. The caller has checked the state.
  [[nodiscard]] PostResult post(const ReceiveRequest& request);

  // The engine only. front() and sges() need !empty().

  [[nodiscard]] bool empty() const {
    return head_.load(std::memory_order_relaxed) == tail_.load(std::memory_order_acquire);
  }
  [[nodiscard]] const Wqe& front() const { return wqes_[slot()]; }
  [[nodiscard]] std::span<const Sge> sges() const {
    return {sges_.data() + slot() * max_sge_, front().sge_count};
  }
  void pop() { head_.store(head_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
  void clear() { head_.store(tail_.load(std::memory_order_acquire), std::memory_order_release); }

 private:
  [[nodiscard]] std::size_t slot() const {
    return head_.load(std::memory_order_relaxed) % wqes_.size();
  }

  std::vector<Wqe> wqes_;
  std::vector<Sge> sges_;  // max_sge_ for each
  std::uint32_t max_sge_;
  SpinLock posting_;
  std::atomic<std::uint64_t> head_{0};
  std::atomic<std::uint64_t> tail_{0};
};

}  // namespace verbena::engine
