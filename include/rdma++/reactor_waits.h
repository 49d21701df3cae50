// What a coroutine can wait for besides completions: time, a descriptor, other coroutines.
#pragma once

#ifdef __cpp_impl_coroutine

#include <fcntl.h>
#include <unistd.h>

#include <coroutine>
#include <exception>
#include <utility>
#include <vector>

#include "rdma++/reactor.h"

namespace rdma {

class Reactor::Sleep : public Waiter {
 public:
  Sleep(Reactor& of, Deadline until, std::stop_token stop) noexcept
      : Waiter{of}, options_{until, std::move(stop)} {}

  bool await_ready() const { return options_.deadline.passed(); }
  void await_suspend(std::coroutine_handle<> coroutine) { wait(coroutine, options_); }
  void await_resume() const {
    if (end() == End::cancelled) throw Cancelled{"sleep", ""};
  }

 private:
  WaitOptions options_;
};

class Reactor::Readable : public Waiter, private EventSource {
 public:
  Readable(Reactor& of, int fd, WaitOptions options) noexcept
      : Waiter{of}, fd_{fd}, options_{std::move(options)} {}
  ~Readable() override { unwatch(); }

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> coroutine) {
    watched_ = dup_for_epoll();
    Waiter::reactor()->watch(watched_, this);
    wait(coroutine, options_);
  }
  void await_resume() const {
    if (end() == End::timed_out) throw TimedOut{"readable", concat("descriptor ", fd_)};
    if (end() == End::cancelled) throw Cancelled{"readable", concat("descriptor ", fd_)};
  }

 private:
  /// Two coroutines may wait for the same descriptor; epoll knows each only once.
  [[nodiscard]] int dup_for_epoll() const {
    const int copy = fcntl(fd_, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) throw Error{"fcntl", concat("descriptor ", fd_), errno};
    return copy;
  }
  void unwatch() noexcept {
    if (watched_ < 0) return;
    if (reactor() != nullptr) reactor()->unwatch(watched_);
    close(std::exchange(watched_, -1));
  }
  bool poll() override { return false; }
  void arm() override {}
  void readable() override {
    unwatch();
    finish(End::done);
  }

  int fd_;
  int watched_ = -1;
  WaitOptions options_;
};

inline Reactor::Sleep Reactor::sleep(Deadline until, std::stop_token stop) {
  return {*this, until, std::move(stop)};
}
inline Reactor::Readable Reactor::readable(int fd, WaitOptions options) {
  return {*this, fd, std::move(options)};
}

/// Counts tasks down and wakes whoever waits for zero.
class Reactor::Group : public Waiter {
 public:
  Group(Reactor& of, std::size_t tasks) noexcept : Waiter{of}, left_{tasks} {}

  /// By value: the task lives in this coroutine's frame.
  Task<> guard(Task<> task) {
    try {
      co_await task;
    } catch (...) {
      if (!failure_) failure_ = std::current_exception();
    }
    if (--left_ == 0 && id() != 0) finish(End::done);
  }

  bool await_ready() const noexcept { return left_ == 0; }
  void await_suspend(std::coroutine_handle<> coroutine) { wait(coroutine, {}); }
  void await_resume() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::size_t left_;
  std::exception_ptr failure_;
};

inline Task<> Reactor::when_all(std::vector<Task<>> tasks) {
  Group group{*this, tasks.size()};
  std::vector<Task<>> guarded;
  for (Task<>& task : tasks) guarded.push_back(group.guard(std::move(task)));
  for (Task<>& task : guarded) task.start();
  co_await group;
}

}  // namespace rdma

#endif  // __cpp_impl_coroutine
