#include "host/completion_channel.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "host/nic.h"

namespace verbena::host {

Result<CompletionChannel*> CompletionChannel::create() {
  const int fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  if (fd < 0) return Error{errno, "eventfd for a completion channel"};
  return new CompletionChannel{fd};
}

CompletionChannel::~CompletionChannel() { close(fd_); }

void CompletionChannel::append(CompletionQueue& cq) {
  cq.next_waiting = nullptr;
  (last_ == nullptr ? first_ : last_->next_waiting) = &cq;
  last_ = &cq;
}

void CompletionChannel::raise(CompletionQueue& cq) {
  {
    const std::lock_guard lock{mutex_};
    if (cq.events_waiting++ == 0) append(cq);
  }
  // Fails only when 2^64 - 2 events wait.
  [[maybe_unused]] const int r = eventfd_write(fd_, 1);
}

Result<CompletionQueue*> CompletionChannel::get() {
  for (;;) {
    eventfd_t one = 0;
    if (eventfd_read(fd_, &one) != 0) return Error{errno, "reading a completion channel"};
    const std::lock_guard lock{mutex_};
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
  if (std::exchange(cq.events_waiting, 0) > 0) {
    CompletionQueue* before = nullptr;
    for (CompletionQueue* at = first_; at != &cq; at = at->next_waiting) before = at;
    (before == nullptr ? first_ : before->next_waiting) = cq.next_waiting;
    if (last_ == &cq) last_ = before;
  }
  return cq.events_taken;
}

}  // namespace verbena::host
