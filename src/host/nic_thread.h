#pragma once

#include <atomic>

#include "base/result.h"
#include "base/time.h"

namespace verbena::host {

/// The thread that keeps the NIC going when the program doesn't. Asleep when there is nothing
/// to do; while somebody polls it steps aside, because the poller serves the wire and the
/// timers sooner, and is back within kAside of the last poll.
class NicThread {
 public:
  static constexpr Duration kAside = std::chrono::milliseconds{1};

  class Work {
   public:
    /// `control`: the control descriptor is readable. Returns when to be called again.
    virtual Instant work(bool control) = 0;

   protected:
    ~Work() = default;
  };

  explicit NicThread(Work& work) : work_{work} {}
  NicThread(const NicThread&) = delete;
  NicThread& operator=(const NicThread&) = delete;

  /// Runs until the process ends.
  Status start(int data_fd, int control_fd);

  /// Any thread: a program has just polled.
  void polled(Instant when) { last_polled_.store(when, std::memory_order_relaxed); }

  /// Any thread: work() has to run by then. Cheap when it will anyway.
  void wake_by(Instant deadline);

  /// In a forked child, which has no such thread.
  void abandon();

 private:
  void run();
  struct Woken {
    bool data = false;
    bool control = false;
  };
  [[nodiscard]] Woken wait(int epoll, Instant until);

  Work& work_;
  int wake_fd_ = -1;
  int aside_epoll_ = -1;  // control and wake
  int full_epoll_ = -1;   // … and data
  int control_fd_ = -1;
  std::atomic<Instant> last_polled_{Instant{}};
  /// Wakes later than this need not be announced. kNever: the thread is not asleep.
  std::atomic<Instant> asleep_until_{kNever};
};

}  // namespace verbena::host
