#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <utility>

#include "base/time.h"
#include "engine/completion.h"

namespace verbena::engine {

/// A ring with one producer, the engine, and one consumer at a time, whoever polls.
/// Neither waits for the other.
class CompletionQueue {
 public:
  enum class Notify : std::uint8_t { none, solicited, any };

  /// What happens to a completion that finds the queue full. It is lost either way.
  enum class Overrun : std::uint8_t {
    fails,    // IBA 11.6.3.1.2
    ignored,  // the program answers for it: IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN
  };

  explicit CompletionQueue(std::uint32_t capacity, Overrun overrun = Overrun::fails);

  [[nodiscard]] std::uint32_t capacity() const { return capacity_; }

  // Consumer side.

  [[nodiscard]] std::size_t poll(std::span<Completion> out);
  [[nodiscard]] bool empty() const {
    return head_.load(std::memory_order_relaxed) ==
           tail_.load(std::memory_order_seq_cst);  // see push()
  }
  /// Asks for one event at the next completion: any, or only a solicited one or an error.
  void arm(bool solicited_only);
  [[nodiscard]] bool armed() const {
    return notify_.load(std::memory_order_relaxed) != Notify::none;
  }

  // Moderation: an event that was asked for waits until `count` completions have come, or until
  // `period` after the first of them. Producer side.

  /// `count` below 2: no waiting. `period` 0: no limit.
  void moderate(std::uint16_t count, Duration period);
  /// When an event must be raised though nothing comes any more.
  [[nodiscard]] Instant due() const { return due_; }
  /// At due(). True: somebody waits for the event.
  [[nodiscard]] bool expire();

  /// Neither side may be at it meanwhile. False: more completions wait than would fit.
  [[nodiscard]] bool resize(std::uint32_t capacity);

  /// What a queue pair left behind that is reset or goes. Neither side may be at it meanwhile.
  void discard(Qpn qpn);

  // Producer side.

  enum class Pushed : std::uint8_t { quietly, raise_event, raise_later, overrun };
  /// raise_later: from now on it has a due().
  /// overrun: the queue was full, the completion is lost (IBA 11.6.2: the queue is in error).
  [[nodiscard]] Pushed push(const Completion& c);
  /// Completions that nobody has polled yet.
  [[nodiscard]] std::uint64_t waiting() const {
    return tail_.load(std::memory_order_relaxed) - head_.load(std::memory_order_relaxed);
  }
  /// The first time that it overran: true.
  [[nodiscard]] bool fail() { return !std::exchange(failed_, true); }

  /// Queue pairs that complete here; destroying the queue is refused while there are any.
  unsigned users = 0;

 private:
  struct Free {
    void operator()(Completion* p) const { std::free(p); }
  };
  /// From calloc: some programs ask for millions of entries and use few.
  using Ring = std::unique_ptr<Completion[], Free>;
  [[nodiscard]] static Ring allocate(std::uint32_t capacity);
  /// A power of two, so that finding one needs no division.
  [[nodiscard]] static std::size_t slots(std::uint32_t capacity) {
    return std::bit_ceil(std::size_t{capacity});
  }
  [[nodiscard]] Completion& at(std::uint64_t index) { return ring_[index & mask_]; }
  Ring ring_;
  std::uint32_t capacity_;
  std::uint64_t mask_;
  Overrun overrun_;
  alignas(64) std::atomic<std::uint64_t> head_{0};  // next to poll
  alignas(64) std::atomic<std::uint64_t> tail_{0};  // next to push
  bool failed_ = false;
  std::atomic<Notify> notify_{Notify::none};

  [[nodiscard]] bool disarm(bool special);

  std::uint16_t moderation_count_ = 1;
  Duration moderation_period_{};
  std::uint32_t gathered_ = 0;  // completions that an event waits with
  Instant due_ = kNever;
};

}  // namespace verbena::engine
