#include "host/event_channel.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>

namespace verbena::host {

Result<EventChannel*> EventChannel::create() {
  const int fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  if (fd < 0) return Error{errno, "eventfd for asynchronous events"};
  return new EventChannel{fd};
}

EventChannel::~EventChannel() { close(fd_); }

bool EventChannel::add(const AsyncEvent& event) {
  const std::lock_guard lock{mutex_};
  const auto waiting = std::find_if(events_.begin(), events_.end(), [&](const AsyncEvent& e) {
    return event.source == nullptr && e.source == nullptr && e.kind == event.kind;
  });
  if (waiting != events_.end()) {
    std::rotate(waiting, waiting + 1, events_.end());
    return false;
  }
  events_.push_back(event);
  return true;
}

void EventChannel::raise(const AsyncEvent& event) noexcept {
  try {
    if (!add(event)) return;
  } catch (const std::bad_alloc&) {
    lost_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  // Fails only when 2^64 - 2 events wait.
  [[maybe_unused]] const int r = eventfd_write(fd_, 1);
}

Result<AsyncEvent> EventChannel::get() {
  for (;;) {
    eventfd_t one = 0;
    if (eventfd_read(fd_, &one) != 0) return Error{errno, "reading asynchronous events"};
    const std::lock_guard lock{mutex_};
    if (events_.empty()) continue;  // its source was destroyed meanwhile
    const AsyncEvent event = events_.front();
    events_.pop_front();
    if (event.source != nullptr) ++event.source->taken;
    return event;
  }
}

unsigned EventChannel::forget(const EventSource& source) {
  const std::lock_guard lock{mutex_};
  std::erase_if(events_, [&](const AsyncEvent& e) { return e.source == &source; });
  return source.taken;
}

}  // namespace verbena::host
