#include "host/events/completion_channel.h"

#include <cerrno>
#include <memory>
#include <utility>

#include "host/nic.h"
#include "system/kernel_calls.h"

namespace verbena::host {

Result<CompletionChannel*> CompletionChannel::create() {
  std::unique_ptr<CompletionChannel> channel{new CompletionChannel};
  if (channel->fd() < 0) return Error{errno, "pipe for a completion channel"};
  return channel.release();
}

void CompletionChannel::append(CompletionQueue& cq) {
  cq.next_waiting = nullptr;
  (last_ == nullptr ? first_ : last_->next_waiting) = &cq;
  last_ = &cq;
}

void CompletionChannel::raise(CompletionQueue& cq) {
  const std::lock_guard lock{mutex_};
  if (expected_by_ == std::this_thread::get_id() && handed_over_ == nullptr && first_ == nullptr) {
    handed_over_ = &cq;
    return;
  }
  if (cq.events_waiting++ == 0) append(cq);
  tokens_.give();
  if (bell_ < 0) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto n = kernel::write(std::exchange(bell_, -1), &one, sizeof one);
}

bool CompletionChannel::would_sleep() {
  const std::lock_guard lock{mutex_};
  return first_ == nullptr && tokens_.blocks();
}

void CompletionChannel::expect() {
  const std::lock_guard lock{mutex_};
  expected_by_ = std::this_thread::get_id();
}

CompletionQueue* CompletionChannel::handed_over() {
  const std::lock_guard lock{mutex_};
  expected_by_ = {};
  CompletionQueue* const cq = std::exchange(handed_over_, nullptr);
  if (cq != nullptr) ++cq->events_taken;
  return cq;
}

bool CompletionChannel::set_bell(int bell) {
  const std::lock_guard lock{mutex_};
  if (first_ != nullptr) return false;
  bell_ = bell;
  return true;
}

void CompletionChannel::clear_bell() {
  const std::lock_guard lock{mutex_};
  bell_ = -1;
}

Result<CompletionQueue*> CompletionChannel::get() {
  for (;;) {
    if (!tokens_.take()) return Error{errno, "reading a completion channel"};
    const std::lock_guard lock{mutex_};
    tokens_.taken();
    if (first_ == nullptr) continue;  // its queue was destroyed meanwhile
    CompletionQueue& cq = *first_;
    first_ = cq.next_waiting;
    if (first_ == nullptr) last_ = nullptr;
    if (--cq.events_waiting > 0) append(cq);
    ++cq.events_taken;
    return &cq;
  }
}

unsigned CompletionChannel::forget(CompletionQueue& cq) {
  const std::lock_guard lock{mutex_};
  if (handed_over_ == &cq) handed_over_ = nullptr;
  if (const auto waiting = std::exchange(cq.events_waiting, 0); waiting > 0) {
    tokens_.take_back(waiting);
    CompletionQueue* before = nullptr;
    for (CompletionQueue* at = first_; at != &cq; at = at->next_waiting) before = at;
    (before == nullptr ? first_ : before->next_waiting) = cq.next_waiting;
    if (last_ == &cq) last_ = before;
  }
  return cq.events_taken;
}

}  // namespace verbena::host
