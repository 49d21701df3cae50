#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "base/spin_lock.h"
#include "engine/work_request.h"

namespace verbena::engine {

/// A receive that was taken from its queue and is being filled.
struct TakenReceive {
  bool taken = false;
  bool over_ipv4 = false;  // by a datagram, see Completion
  std::uint64_t wr_id = 0;
  std::uint32_t length = 0;
  std::vector<Sge> sges{};
};

/// Receives in the order of posting, of one queue pair or shared by several. Threads of the
/// program post, the engine takes.
class ReceiveQueue {
 public:
  ReceiveQueue(std::uint32_t depth, std::uint32_t max_sge);

  [[nodiscard]] std::uint32_t depth() const { return depth_; }
  [[nodiscard]] std::uint32_t max_sge() const { return max_sge_; }

  /// Any thread. The caller has checked the state.
  [[nodiscard]] PostResult post(const ReceiveRequest& request);

  // The engine only.

  [[nodiscard]] std::uint64_t size() const {
    return tail_.load(std::memory_order_seq_cst) - head_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool empty() const { return size() == 0; }
  /// Needs !empty().
  void take(TakenReceive& into);
  /// As take(), for its id alone.
  [[nodiscard]] std::uint64_t drop();
  void clear() { head_.store(tail_.load(std::memory_order_acquire), std::memory_order_release); }

 private:
  struct Wqe {
    std::uint64_t wr_id = 0;
    std::uint32_t length = 0;
    std::uint32_t sge_count = 0;
  };

  [[nodiscard]] std::size_t slot_of(std::uint64_t index) const {
    return index & (wqes_.size() - 1);
  }

  std::uint32_t depth_;
  std::vector<Wqe> wqes_;  // a power of two
  std::vector<Sge> sges_;  // max_sge_ for each
  std::uint32_t max_sge_;
  SpinLock posting_;
  std::atomic<std::uint64_t> head_{0};
  std::atomic<std::uint64_t> tail_{0};
};

}  // namespace verbena::engine
