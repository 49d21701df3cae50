#include "engine/completion_queue.h"

#include <algorithm>
#include <new>

namespace verbena::engine {

CompletionQueue::Ring CompletionQueue::allocate(std::uint32_t capacity) {
  Ring ring{static_cast<Completion*>(std::calloc(slots(capacity), sizeof(Completion)))};
  if (!ring) throw std::bad_alloc{};
  return ring;
}

CompletionQueue::CompletionQueue(std::uint32_t capacity, Overrun overrun)
    : ring_{allocate(capacity)},
      capacity_{capacity},
      mask_{slots(capacity) - 1},
      overrun_{overrun} {}

bool CompletionQueue::resize(std::uint32_t capacity) {
  const std::uint64_t head = head_.load();
  const std::uint64_t waiting = tail_.load() - head;
  if (waiting > capacity) return false;
  Ring moved = allocate(capacity);
  for (std::uint64_t i = 0; i < waiting; ++i) moved[i] = at(head + i);
  ring_ = std::move(moved);
  capacity_ = capacity;
  mask_ = slots(capacity) - 1;
  head_.store(0);
  tail_.store(waiting);
  return true;
}

void CompletionQueue::discard(Qpn qpn) {
  const std::uint64_t head = head_.load();
  const std::uint64_t tail = tail_.load();
  std::uint64_t kept = tail;  // what stays moves up to the newest, in order
  for (std::uint64_t i = tail; i-- > head;) {
    const Completion& c = at(i);
    if (c.qpn != qpn) at(--kept) = c;
  }
  head_.store(kept);
}

std::size_t CompletionQueue::poll(std::span<Completion> out) {
  const auto head = head_.load(std::memory_order_relaxed);
  const auto ready = tail_.load(std::memory_order_seq_cst) - head;  // see push()
  const auto n = std::min<std::uint64_t>(ready, out.size());
  for (std::uint64_t i = 0; i < n; ++i) out[i] = at(head + i);
  head_.store(head + n, std::memory_order_release);
  return n;
}

void CompletionQueue::arm(bool solicited_only) {
  // A request for any completion is not weakened by a later one for solicited ones (IBA 11.4.2.2).
  const auto wanted = solicited_only ? Notify::solicited : Notify::any;
  auto now = notify_.load(std::memory_order_relaxed);
  // Written even if it says so already: see push().
  while (!notify_.compare_exchange_weak(now, std::max(now, wanted), std::memory_order_seq_cst)) {
  }
}

CompletionQueue::Pushed CompletionQueue::push(const Completion& c) {
  const auto tail = tail_.load(std::memory_order_relaxed);
  if (tail - head_.load(std::memory_order_acquire) == capacity_) {
    return overrun_ == Overrun::fails ? Pushed::overrun : Pushed::quietly;
  }
  at(tail) = c;
  // seq_cst with arm(): either we see the request, or the armer's next poll sees the entry.
  tail_.store(tail + 1, std::memory_order_seq_cst);

  const bool special = c.solicited || c.status != CompletionStatus::success;
  const auto armed = notify_.load(std::memory_order_seq_cst);
  if (armed == Notify::none || (armed == Notify::solicited && !special)) return Pushed::quietly;
  if (++gathered_ < moderation_count_) {
    if (due_ != kNever || moderation_period_ == Duration{}) return Pushed::quietly;
    due_ = c.at + moderation_period_;
    return Pushed::raise_later;
  }
  gathered_ = 0;
  due_ = kNever;
  return disarm(special) ? Pushed::raise_event : Pushed::quietly;
}

bool CompletionQueue::disarm(bool special) {
  auto armed = notify_.load(std::memory_order_seq_cst);
  while (armed == Notify::any || (armed == Notify::solicited && special)) {
    if (notify_.compare_exchange_weak(armed, Notify::none)) return true;
  }
  return false;
}

void CompletionQueue::moderate(std::uint16_t count, Duration period) {
  moderation_count_ = count;
  moderation_period_ = period;
}

bool CompletionQueue::expire() {
  gathered_ = 0;
  due_ = kNever;
  return disarm(/*special=*/true);
}

}  // namespace verbena::engine
