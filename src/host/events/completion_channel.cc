#include "host/events/completion_channel.h"

#include <cerrno>
#include <memory>
#include <utility>

#include "host/nic.h"

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
  if (cq.events_waiting++ == 0) append(cq);
  tokens_.give();
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
