#pragma once

#include <atomic>
#include <span>

#include "base/result.h"
#include "base/time.h"
#include "host/spare_core.h"

namespace verbena::host {

/// The thread that keeps the NIC going when the program doesn't. Asleep when there is nothing
/// to do. A program that polls gets to its packets sooner than a thread that has to wake up: once
/// the thread has been outrun a few times in a row it steps aside, and is back within 1 ms of the
/// last poll. See docs/decisions/005-progress.md.
class NicThread {
 public:
  static constexpr Duration kAsideMin = std::chrono::microseconds{50};
  static constexpr Duration kAsideMax = std::chrono::microseconds{800};
  /// Somebody who polled this recently is polling still.
  static constexpr Duration kPolling = std::chrono::microseconds{20};
  /// Somebody else is waited for, for a quarter of the time between two looks.
  static constexpr int kPatienceShare = 4;
  static constexpr int kOutrunLimit = 8;
  /// What comes so soon after something else needn't wake this thread.
  static constexpr Duration kLinger = std::chrono::microseconds{50};

  class Work {
   public:
    struct Outcome {
      Instant deadline;  // when to be called again
      bool useful;       // there was something to receive
      bool woke;         // a thread of the program that slept
    };
    /// `control`: one of the control descriptors is readable.
    virtual Outcome work(bool control) = 0;

   protected:
    ~Work() = default;
  };

  explicit NicThread(Work& work) : work_{work} {}
  NicThread(const NicThread&) = delete;
  NicThread& operator=(const NicThread&) = delete;

  /// Runs until the process ends.
  Status start(int data_fd, std::span<const int> control_fds);

  /// A further descriptor that is readable when there is something to receive, until it is closed.
  /// False: errno says why.
  [[nodiscard]] bool watch_data(int fd);

  /// Any thread: a program has just polled, in vain so far. `again`: it will soon do so again, as
  /// far as one can tell.
  void polled(Instant when, bool again) {
    last_polled_.store(when, std::memory_order_relaxed);
    waited_for_.store(again, std::memory_order_relaxed);
  }
  /// Any thread: its poll found something, so that it may do something else now.
  void found() { waited_for_.store(false, std::memory_order_relaxed); }

  /// Any thread: the program is going to sleep, so don't wait for the end of its polling.
  void return_to_duty();

  /// Any thread: a poller does the work, and this thread will look after at most 1 ms. It then sees
  /// all that the caller did before: it reads what is written here.
  [[nodiscard]] bool will_look() {
    bool aside = true;
    return aside_.compare_exchange_strong(aside, true, std::memory_order_acq_rel,
                                          std::memory_order_relaxed);
  }

  /// Any thread: work() has to run by then. Cheap when it will anyway.
  void wake_by(Instant deadline);

  /// In a forked child, which has no such thread.
  void abandon();

 private:
  void run();
  /// Somebody polls and has found nothing yet.
  [[nodiscard]] bool is_waited_for() const;
  /// Returns when nobody polls any more, or when there is something else to do.
  void step_aside();
  struct Woken {
    bool data = false;
    bool control = false;
    bool otherwise = false;
    [[nodiscard]] bool at_all() const { return data || control || otherwise; }
  };
  [[nodiscard]] Woken wait(int epoll, Instant until);
  /// Sleeps on duty. What came soon last time is looked for first, if there is a core for that.
  [[nodiscard]] Woken wait_on_duty(const Work::Outcome& last);
  /// Nothing came: nothing is set.
  [[nodiscard]] Woken linger(Instant until);

  Work& work_;
  SpareCore spare_core_;
  bool lingers_ = false;
  int wake_fd_ = -1;
  int aside_epoll_ = -1;  // control and wake
  int full_epoll_ = -1;   // … and data
  std::atomic<Instant> last_polled_{Instant{}};
  std::atomic<bool> waited_for_{false};
  std::atomic<bool> aside_{false};
  /// Wakes later than this need not be announced. kNever: the thread is not asleep.
  std::atomic<Instant> asleep_until_{kNever};
};

}  // namespace verbena::host
