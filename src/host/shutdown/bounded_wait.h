#pragma once

// Waits of a process that ends. exit() may run in a signal handler, on a thread that holds the lock
// it now needs: so nothing here waits for longer than a limit.

#include <chrono>
#include <mutex>
#include <thread>

#include "base/time.h"
#include "host/clock.h"

namespace verbena::host {

struct RealTime {
  [[nodiscard]] static Instant now() { return host::now(); }
  static void sleep(Duration d) { std::this_thread::sleep_for(d); }
};

/// Time between two looks.
inline constexpr Duration kBoundedWaitPause = std::chrono::microseconds{50};

/// Calls `done` until it returns true or `limit` has passed; at least once. Whether it did.
template <typename F, typename Clock = RealTime>
[[nodiscard]] bool wait_within(Duration limit, F&& done, Clock&& clock = {}) {
  const Instant end = clock.now() + limit;
  while (!done()) {
    if (clock.now() >= end) return false;
    clock.sleep(kBoundedWaitPause);
  }
  return true;
}

/// The lock is not held if it didn't come free in time.
template <typename Mutex, typename Clock = RealTime>
[[nodiscard]] std::unique_lock<Mutex> lock_within(Mutex& mutex, Duration limit,
                                                  Clock&& clock = {}) {
  std::unique_lock lock{mutex, std::defer_lock};
  static_cast<void>(wait_within(
      limit, [&] { return lock.try_lock(); }, clock));
  return lock;
}

}  // namespace verbena::host
