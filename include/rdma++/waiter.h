// The two sides of a reactor: coroutines that wait, and sources of what they wait for.
#pragma once

#ifdef __cpp_impl_coroutine

#include <chrono>
#include <coroutine>
#include <cstdint>
#include <map>
#include <optional>
#include <stop_token>
#include <utility>

#include "rdma++/deadline.h"

namespace rdma {

class Reactor;

/// Until when, and who may end it before: 50ms, a token, or {50ms, token}. Both end the wait with
/// an exception. Not an aggregate: g++ 12 destroys one twice in the argument of a co_await.
struct WaitOptions {
  WaitOptions() noexcept = default;
  WaitOptions(Deadline until, std::stop_token token = {}) noexcept
      : deadline{until}, stop{std::move(token)} {}
  template <class Rep, class Period>
  WaitOptions(std::chrono::duration<Rep, Period> from_now, std::stop_token token = {})
      : deadline{from_now}, stop{std::move(token)} {}
  WaitOptions(std::stop_token token) noexcept : stop{std::move(token)} {}

  Deadline deadline = Deadline::never();
  std::stop_token stop;
};

/// A coroutine that waits for something of the reactor's; lives in its frame.
class Waiter {
 public:
  explicit Waiter(Reactor& reactor) noexcept : reactor_{&reactor} {}
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  virtual ~Waiter();

 protected:
  enum class End { none, done, timed_out, cancelled };

  [[nodiscard]] Reactor* reactor() const noexcept { return reactor_; }  ///< null: it is gone
  [[nodiscard]] End end() const noexcept { return end_; }
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }

  /// Called by the awaiter's await_suspend.
  void wait(std::coroutine_handle<> coroutine, const WaitOptions& options);
  /// Resumes the coroutine from the loop.
  void finish(End how);
  /// Nobody will resume it. What it waited on stays as it is.
  void reactor_gone() noexcept;
  /// The deadline passed or a stop was requested. The default ends the wait at once.
  virtual void give_up(End why) { finish(why); }

 private:
  friend class Reactor;
  struct Pull {  // runs on whichever thread requests the stop
    Reactor* reactor;
    std::uint64_t id;
    void operator()() const noexcept;
  };

  Reactor* reactor_;
  std::coroutine_handle<> coroutine_;
  End end_ = End::none;
  std::uint64_t id_ = 0;  // 0: not waiting
  std::optional<std::multimap<Deadline::Clock::time_point, Waiter*>::iterator> timer_;
  std::optional<std::stop_callback<Pull>> on_stop_;
};

/// Something that has to be polled, such as the completion queue of a connection.
class EventSource {
 public:
  virtual ~EventSource() = default;
  /// Takes what is there; true when there was something.
  virtual bool poll() = 0;
  /// Makes the descriptors readable by whatever comes next; poll() is called once more after it.
  virtual void arm() = 0;
  /// A descriptor was readable.
  virtual void readable() = 0;
  [[nodiscard]] virtual Deadline wake_at() const { return Deadline::never(); }
  /// The reactor is being destroyed: don't remove() yourself from it any more.
  virtual void reactor_gone() noexcept {}
};

}  // namespace rdma

#endif  // __cpp_impl_coroutine
