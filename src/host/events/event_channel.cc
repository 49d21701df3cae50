#include "host/events/event_channel.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>

namespace verbena::host {

Result<EventChannel*> EventChannel::create() {
  std::unique_ptr<EventChannel> channel{new EventChannel};
  if (channel->fd() < 0) return Error{errno, "pipe for asynchronous events"};
  return channel.release();
}

void EventChannel::add(const AsyncEvent& event) {
  const std::lock_guard lock{mutex_};
  const auto waiting = std::find_if(events_.begin(), events_.end(), [&](const AsyncEvent& e) {
    return event.source == nullptr && e.source == nullptr && e.kind == event.kind;
  });
  if (waiting != events_.end()) {
    std::rotate(waiting, waiting + 1, events_.end());
    return;
  }
  events_.push_back(event);
  tokens_.give();
}

void EventChannel::raise(const AsyncEvent& event) noexcept {
  try {
    add(event);
  } catch (const std::bad_alloc&) {
    lost_.fetch_add(1, std::memory_order_relaxed);
  }
}

Result<AsyncEvent> EventChannel::get() {
  for (;;) {
    if (!tokens_.take()) return Error{errno, "reading asynchronous events"};
    const std::lock_guard lock{mutex_};
    tokens_.taken();
    if (events_.empty()) continue;  // its source was destroyed meanwhile
    const AsyncEvent event = events_.front();
    events_.pop_front();
    if (event.source != nullptr) ++event.source->events_taken;
    return event;
  }
}

unsigned EventChannel::forget(const EventSource& source) {
  const std::lock_guard lock{mutex_};
  tokens_.take_back(
      std::erase_if(events_, [&](const AsyncEvent& e) { return e.source == &source; }));
  return source.events_taken;
}

}  // namespace verbena::host
