#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "base/psn.h"
#include "base/spin_lock.h"
#include "engine/send_kind.h"
#include "engine/work_request.h"

namespace verbena::engine {

/// What a SendRequest says, without its SGEs, and small: ten thousand queues of these should fit
/// into a cache rather than into memory.
struct PostedSend {
  explicit PostedSend(const SendRequest& r);
  PostedSend() = default;

  std::uint64_t wr_id = 0;
  std::uint64_t remote_address = 0;
  Key rkey{};
  packet::Immediate immediate{};
  Key invalidate{};
  std::uint32_t xrc_srq = 0;
  SendKind kind = SendKind::send;
  bool signaled = false;
  bool solicited = false;
  bool fence = false;
  bool inlined = false;

  // What only some kinds have.
  [[nodiscard]] const AtomicOperands& atomic() const {
    return *std::get_if<AtomicOperands>(&operands_);
  }
  [[nodiscard]] const FlushOperands& flush() const {
    return *std::get_if<FlushOperands>(&operands_);
  }
  [[nodiscard]] const WindowBinding& binding() const {
    return *std::get_if<WindowBinding>(&operands_);
  }
  /// Of SENDs; says something on UD only.
  [[nodiscard]] const Destination& destination() const {
    return *std::get_if<Destination>(&operands_);
  }

 private:
  std::variant<std::monostate, AtomicOperands, FlushOperands, WindowBinding, Destination> operands_;
};

/// A send request while the queue pair works on it.
struct SendWqe {
  PostedSend request;  // its SGEs: see SendQueue::sges()
  std::uint32_t length = 0;
  std::uint32_t sge_count = 0;
  std::uint64_t receive = 0;  // of those that take a receive: how many did so before it

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

  [[nodiscard]] std::uint32_t depth() const { return depth_; }
  [[nodiscard]] std::uint32_t max_sge() const { return max_sge_; }
  [[nodiscard]] std::uint32_t max_inline() const { return max_inline_; }

  /// Any thread. The caller has checked the state and the kind.
  [[nodiscard]] PostResult post(const SendRequest& request, bool signal_all);

  // A list of requests of which all or none are posted: staged one after the other, then published.
  // One caller at a time, and nobody else posts meanwhile.

  /// `staged` others wait before it.
  [[nodiscard]] PostResult stage(const SendRequest& request, bool signal_all, std::uint32_t staged);
  void publish(std::uint32_t staged);

  // The engine only.

  [[nodiscard]] std::uint64_t head() const { return head_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t tail() const { return tail_.load(std::memory_order_acquire); }
  [[nodiscard]] SendWqe& at(std::uint64_t index) { return wqes_[slot_of(index)]; }
  [[nodiscard]] std::span<const Sge> sges(std::uint64_t index) const;
  [[nodiscard]] std::span<const std::uint8_t> inline_bytes(std::uint64_t index) const;
  void retire() { head_.store(head() + 1, std::memory_order_release); }
  void clear();

 private:
  [[nodiscard]] std::size_t slot_of(std::uint64_t index) const {
    return index & (wqes_.size() - 1);
  }

  std::uint32_t depth_;
  std::vector<SendWqe> wqes_;         // a power of two, so that finding one needs no division
  std::vector<Sge> sges_;             // max_sge_ for each
  std::vector<std::uint8_t> inline_;  // max_inline_ for each
  std::uint32_t max_sge_;
  std::uint32_t max_inline_;
  /// Writes it `ahead` places behind the newest, where nobody sees it yet. With the lock.
  [[nodiscard]] PostResult write(const SendRequest& r, bool signal_all, std::uint32_t ahead);
  /// With the lock.
  void advance(std::uint32_t count);

  SpinLock posting_;
  std::uint64_t receives_ = 0;          // requests posted that take one
  std::atomic<std::uint64_t> head_{0};  // oldest that is not complete
  std::atomic<std::uint64_t> tail_{0};  // one past the newest
};

}  // namespace verbena::engine
