#include "host/progress/event_wait.h"

#include <cerrno>
#include <cstdint>

#include "host/clock.h"
#include "system/long_waits.h"

namespace verbena::host {

/// While it lives, this thread watches the bell.
class EventWait::Relief {
 public:
  explicit Relief(NicThread& thread) : thread_{thread} {}
  ~Relief() { thread_.end_relief(now()); }
  Relief(const Relief&) = delete;
  Relief& operator=(const Relief&) = delete;

 private:
  NicThread& thread_;
};

Result<CompletionQueue*> EventWait::get(CompletionChannel& channel) {
  if (bell_ < 0 || !channel.would_sleep() || !thread_.relieve()) return channel.get();
  {
    const Relief relief{thread_};
    for (;;) {
      channel.expect();
      const Instant deadline = shard_.serve_before_sleep();
      if (CompletionQueue* const cq = channel.handed_over()) return cq;
      if (!channel.set_bell(bell_)) break;
      if (!shard_.may_sleep()) {
        channel.clear_bell();
        continue;
      }
      thread_.wake_by(deadline);
      const Wake wake = sleep(channel);
      if (wake == Wake::signal) return Error{EINTR, "waiting for a completion event"};
      if (wake == Wake::channel_gone) {
        kernel::wait_for_signal();
        return Error{EINTR, "waiting for an event of a channel that was destroyed"};
      }
    }
  }
  return channel.get();  // an event is there
}

EventWait::Wake EventWait::sleep(CompletionChannel& channel) {
  /// Also when the thread is cancelled.
  struct Sleeper {
    Sleeper(EventWait& w, CompletionChannel& c) : wait{w}, channel{c} {
      const std::lock_guard lock{wait.mutex_};
      wait.slept_for_ = &channel;
    }
    ~Sleeper() {
      const std::lock_guard lock{wait.mutex_};
      if (wait.slept_for_ == &channel) channel.clear_bell();
      wait.slept_for_ = nullptr;
    }
    EventWait& wait;
    CompletionChannel& channel;
  };
  std::uint64_t rings = 0;
  ssize_t n = 0;
  {
    const Sleeper sleeper{*this, channel};
    n = kernel::wait_and_read(bell_, &rings, sizeof rings);
    const std::lock_guard lock{mutex_};
    if (slept_for_ == nullptr) return Wake::channel_gone;
  }
  return n < 0 ? Wake::signal : Wake::bell;
}

void EventWait::forget(const CompletionChannel& channel) {
  const std::lock_guard lock{mutex_};
  if (slept_for_ == &channel) slept_for_ = nullptr;
}

}  // namespace verbena::host
