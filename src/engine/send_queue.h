#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "base/psn.h"
#include "base/spin_lock.h"
#include "engine/send_kind.h"
#include "engine/work_request.h"

namespace verbena::engine {

/// A send request while the queue pair works on it.
struct SendWqe {
  SendRequest request;  // its `sges` are not used: see SendQueue::sges()
  std::uint32_t length = 0;
  std::uint32_t sge_count = 0;

  // The requester's: set when the first packet leaves.
  bool started = false;
  bool done = false;          // of one without packets: it took effect
  std::uint32_t packets = 0;  // 0: done without the peer
  Psn first_psn{};

  [[nodiscard]] const SendKindInfo& info() const { return info_of(request.kind); }
  /// One past its last PSN.
  [[nodiscard]] Psn end_psn() const { return first_psn + packets; }
};

/// Requests in the order of posting. Threads of the program post, the engine works and
/// retires; an index counts all requests ever posted.
class SendQueue {
 public:
  SendQueue(std::uint32_t depth, std::uint32_t max_sge, std::uint32_t max_inline);

  [[nodiscard]] std::uint32_t depth() const { return static_cast<std::uint32_t>(wqes_.size()); }
  [[nodiscard]] std::uint32_t max_sge() const { return max_sge_; }
  [[nodiscard]] std::uint32_t max_inline() const { return max_inline_; }

  /// Any thread. The caller has checked the state and the kind.
  [[nodiscard]] PostResult post(const SendRequest& request, bool signal_all);

  // The engine only.

  [[nodiscard]] std::uint64_t head() const { return head_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t tail() const { return tail_.load(std::memory_order_acquire); }
  [[nodiscard]] SendWqe& at(std::uint64_t index) { return wqes_[index % wqes_.size()]; }
  [[nodiscard]] std::span<const Sge> sges(std::uint64_t index) const;
  [[nodiscard]] std::span<const std::uint8_t> inline_bytes(std::uint64_t index) const;
  void retire() { head_.store(head() + 1, std::memory_order_release); }
  void clear() { head_.store(tail(), std::memory_order_release); }

 private:
  std::vector<SendWqe> wqes_;
  std::vector<Sge> sges_;             // max_sge_ for each
  std::vector<std::uint8_t> inline_;  // max_inline_ for each
  std::uint32_t max_sge_;
  std::uint32_t max_inline_;
  SpinLock posting_;
  std::atomic<std::uint64_t> head_{0};  // oldest that is not complete
  std::atomic<std::uint64_t> tail_{0};  // one past the newest
};

}  // namespace verbena::engine
