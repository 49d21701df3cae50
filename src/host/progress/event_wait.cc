#include "host/progress/event_wait.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "host/clock.h"
#include "system/kernel_calls.h"
#include "system/long_waits.h"
#include "system/system_error.h"

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

std::size_t EventWait::online_cores() {
  return static_cast<std::size_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

EventWait::EventWait(Shard& shard, NicThread& thread, std::size_t cores)
    : shard_{shard}, thread_{thread}, cores_{cores} {}

Status EventWait::set_bell(int bell) {
  rings_ = Fd{kernel::epoll_create1(EPOLL_CLOEXEC)};
  epoll_event each{};
  each.events = EPOLLIN | EPOLLET;
  if (!rings_ || kernel::epoll_ctl(rings_.get(), EPOLL_CTL_ADD, bell, &each) != 0) {
    return system_error(errno, "a descriptor to wait for rings");
  }
  bell_ = bell;
  return Ok{};
}

Result<CompletionQueue*> EventWait::get(CompletionChannel& channel) {
  if (!rings_ || !channel.would_sleep() || !thread_.relieve()) return channel.get();
  const Watch watch = watch_rings(channel);
  switch (watch.end) {
    case Watch::handed_over:
      return watch.cq;
    case Watch::event:
      return channel.get();
    case Watch::signal:
      return Error{EINTR, "waiting for a completion event"};
    case Watch::channel_gone:
      kernel::wait_for_signal();
      return Error{EINTR, "waiting for an event of a channel that was destroyed"};
  }
  return channel.get();  // not reached: the ends are all there
}

EventWait::Watch EventWait::watch_rings(CompletionChannel& channel) {
  const Relief relief{thread_};
  for (;;) {
    channel.expect();
    const Instant deadline = shard_.serve_rings().deadline;
    CompletionQueue* const cq = channel.handed_over();
    if (cq != nullptr || !channel.set_bell(bell_)) {
      thread_.wake_by(deadline);
      return cq != nullptr ? Watch{Watch::handed_over, cq} : Watch{Watch::event};
    }
    if (!shard_.may_sleep()) {
      channel.clear_bell();
      continue;
    }
    thread_.wake_by(deadline);
    if (const auto end = sleep(channel); end != Watch::event) return {end};
  }
}

EventWait::Watch::End EventWait::sleep(CompletionChannel& channel) {
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
  const Sleeper sleeper{*this, channel};
  std::uint64_t rings = 0;
  const ssize_t n = kernel::wait_and_read(bell_, &rings, sizeof rings);
  const std::lock_guard lock{mutex_};
  if (slept_for_ == nullptr) return Watch::channel_gone;
  return n < 0 ? Watch::signal : Watch::event;
}

bool EventWait::machine_is_busy(Instant now) {
  const std::unique_lock lock{asking_, std::try_to_lock};
  return lock.owns_lock() && !cores_.exists(now, 0);
}

void EventWait::rest(Instant now, const engine::CompletionQueue& polled) {
  // A program that polls other things as well gets back to them after this time.
  constexpr timespec kLongest{.tv_sec = 0, .tv_nsec = 200'000};
  if (!rings_ || !machine_is_busy(now) || !thread_.relieve()) {
    sched_yield();
    return;
  }
  const Relief relief{thread_};
  const NicThread::Work::Outcome served = shard_.serve_rings();
  if (!polled.empty() || served.useful || !shard_.may_sleep()) return;
  epoll_event ring{};
  // Before Linux 5.11, and in some sandboxes, there is no such call.
  if (kernel::epoll_pwait2(rings_.get(), &ring, 1, &kLongest, nullptr) < 0) sched_yield();
  static_cast<void>(shard_.serve_rings());
}

void EventWait::abandon() {
  rings_.reset();
  cores_.abandon();
}

void EventWait::forget(const CompletionChannel& channel) {
  const std::lock_guard lock{mutex_};
  if (slept_for_ == &channel) slept_for_ = nullptr;
}

}  // namespace verbena::host
