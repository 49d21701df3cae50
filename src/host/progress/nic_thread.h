#pragma once

#include <atomic>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "host/progress/progress_policy.h"
#include "host/progress/spare_core.h"

namespace verbena::host {

/// The thread that keeps the NIC going when the program doesn't. ProgressPolicy decides what it
/// does; here are the clock, the descriptors, and what other threads tell it.
class NicThread {
 public:
  class Work {
   public:
    using Outcome = ProgressPolicy::Round;
    /// `control`: one of the control descriptors is readable.
    virtual Outcome work(bool control) = 0;
    /// Something has arrived, as far as can be told without a system call.
    [[nodiscard]] virtual bool arrived() { return false; }
    /// Before the thread sleeps on the descriptors. False: work() first.
    [[nodiscard]] virtual bool may_sleep() { return true; }

   protected:
    ~Work() = default;
  };

  explicit NicThread(Work& work) : work_{work} {}
  NicThread(const NicThread&) = delete;
  NicThread& operator=(const NicThread&) = delete;

  /// Descriptors of -1 are none.
  struct Descriptors {
    std::vector<int> bells{};  // each time that one becomes readable, there may be data
    std::vector<int> data{};
    std::vector<int> control{};
  };
  /// Runs until the process ends.
  Status start(const Descriptors& watched);

  /// Adds a descriptor that is readable when there is something to receive. It is watched until it
  /// is closed. False: errno says why.
  [[nodiscard]] bool watch_data(int fd);

  /// Any thread: a program has just polled and found nothing. `again`: as far as one can tell, it
  /// will soon poll again.
  void polled(Instant when, bool again) {
    last_poll_.store(when, std::memory_order_relaxed);
    poller_waits_.store(again, std::memory_order_relaxed);
  }
  /// Any thread: its poll found something, so it may now do something else.
  void found() { poller_waits_.store(false, std::memory_order_relaxed); }

  /// Any thread: the program is going to sleep. If the thread stands aside, it comes back at once.
  void return_to_duty();

  /// Any thread. True: the thread stands aside, and will work within 1 ms of the last poll. It then
  /// sees all that the caller did before: the exchange that ends its time aside reads what is
  /// written here, hence a read-modify-write and not a load.
  [[nodiscard]] bool will_look() {
    bool aside = true;
    return aside_.compare_exchange_strong(aside, true, std::memory_order_acq_rel,
                                          std::memory_order_relaxed);
  }

  /// A thread of the program: from now on it watches the bells, and works when one rings. False:
  /// another one does.
  [[nodiscard]] bool relieve() { return !relieved_.exchange(true); }
  /// It doesn't any more, but may soon be back.
  void end_relief(Instant now);

  /// Any thread: work() has to run by then. Cheap if it will anyway.
  void wake_by(Instant deadline);

  /// Any thread, with what work() locks. False: the thread stands aside; when it comes back, it
  /// works and looks when it has to run next, so there is no need to wake it by anything.
  [[nodiscard]] bool wants_deadline() const {
    return asleep_until_.load(std::memory_order_relaxed) != Instant::min();
  }

  /// In a forked child, which has no such thread.
  void abandon();

 private:
  using Step = ProgressPolicy::Step;
  using Wakeup = ProgressPolicy::Wakeup;

  // Private to the NIC thread.
  void run();
  [[nodiscard]] Step carry_out(const Step& step);
  [[nodiscard]] Step work(bool control);
  [[nodiscard]] Step nap(Instant until);
  /// What other threads have said so far.
  [[nodiscard]] ProgressPolicy::Facts facts() const;
  /// Rounds due before `deadline` need a wake-up from now on, until work() begins.
  void announce(Instant deadline);
  /// Waits on the descriptors of an epoll set. An instant in the past: only looks.
  [[nodiscard]] Wakeup wait(int epoll, Instant until);

  Work& work_;
  ProgressPolicy policy_;
  SpareCore spare_core_;
  bool announced_ = false;
  int wake_fd_ = -1;
  int aside_epoll_ = -1;  // control and wake
  int quiet_epoll_ = -1;  // control, wake and data
  int full_epoll_ = -1;   // control, wake, data and bells

  std::atomic<bool> relieved_{false};
  std::atomic<Instant> relief_ended_{Instant{}};
  std::atomic<Instant> last_poll_{Instant{}};
  std::atomic<bool> poller_waits_{false};
  /// Set by the thread when it steps aside; cleared by it, or by who wants it back.
  std::atomic<bool> aside_{false};
  /// wake_by() an earlier instant writes to wake_fd_. kNever: the thread is awake and may have
  /// computed its deadline already, so any instant does. Instant::min(): a poller does the work.
  std::atomic<Instant> asleep_until_{kNever};
};

}  // namespace verbena::host
