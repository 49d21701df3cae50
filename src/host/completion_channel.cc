#include "host/completion_channel.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "host/nic.h"

namespace verbena::host {

Result<CompletionChannel*> CompletionChannel::create() {
  const int fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  if (fd < 0) return Error{errno, "eventfd for a completion channel"};
  return new CompletionChannel{fd};
}

CompletionChannel::~CompletionChannel() { close(fd_); }

void CompletionChannel::raise(CompletionQueue& cq) {
  {
    const std::lock_guard lock{mutex_};
    events_.push_back(&cq);
  }
  // Fails only when 2^64 - 2 events wait.
  [[maybe_unused]] const int r = eventfd_write(fd_, 1);
}

Result<CompletionQueue*> CompletionChannel::get() {
  for (;;) {
    eventfd_t one = 0;
    if (eventfd_read(fd_, &one) != 0) return Error{errno, "reading a completion channel"};
    const std::lock_guard lock{mutex_};
    if (events_.empty()) continue;  // its queue was destroyed meanwhile
    CompletionQueue* const cq = events_.front();
    events_.pop_front();
    ++cq->events_taken;
    return cq;
  }
}

unsigned CompletionChannel::forget(const CompletionQueue& cq) {
  const std::lock_guard lock{mutex_};
  std::erase(events_, &cq);
  return cq.events_taken;
}

}  // namespace verbena::host
