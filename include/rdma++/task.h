// A coroutine that starts when it is awaited and gives its result to whoever awaits it.
//
//   Task<int> answer() { co_return 42; }
//   Task<> ask() { const int n = co_await answer(); … }
#pragma once

#ifdef __cpp_impl_coroutine

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

namespace rdma {

template <class T = void>
class Task;

namespace detail {

/// What promises of every result have in common: who goes on afterwards, and how it went.
class TaskPromise {
 public:
  std::suspend_always initial_suspend() noexcept { return {}; }
  auto final_suspend() noexcept { return Resume{}; }
  void unhandled_exception() noexcept { failure_ = std::current_exception(); }
  void set_continuation(std::coroutine_handle<> next) noexcept { next_ = next; }

 protected:
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  struct Resume {
    bool await_ready() noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> done) noexcept {
      return done.promise().TaskPromise::next_;
    }
    void await_resume() noexcept {}
  };

  std::coroutine_handle<> next_ = std::noop_coroutine();
  std::exception_ptr failure_;
};

template <class T>
class ValuePromise : public TaskPromise {
 public:
  Task<T> get_return_object() noexcept;
  template <class U>
  void return_value(U&& value) {
    value_.emplace(std::forward<U>(value));
  }
  T take() {
    rethrow();
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;
};

template <>
class ValuePromise<void> : public TaskPromise {
 public:
  Task<void> get_return_object() noexcept;
  void return_void() noexcept {}
  void take() { rethrow(); }
};

}  // namespace detail

/// Move-only; destroying it destroys the coroutine, wherever that waits.
template <class T>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::ValuePromise<T>;

  Task(Task&& other) noexcept : coroutine_{std::exchange(other.coroutine_, nullptr)} {}
  Task& operator=(Task&& other) noexcept {
    std::swap(coroutine_, other.coroutine_);
    return *this;
  }
  ~Task() {
    if (coroutine_) coroutine_.destroy();
  }

  [[nodiscard]] bool done() const noexcept { return coroutine_.done(); }
  /// For event loops: runs it up to its first wait.
  void start() { coroutine_.resume(); }
  /// For event loops: of one that is done; throws what it threw.
  T result() { return coroutine_.promise().take(); }

  auto operator co_await() noexcept {
    struct Awaiter {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) noexcept {
        coroutine.promise().set_continuation(awaiting);
        return coroutine;
      }
      T await_resume() { return coroutine.promise().take(); }
      std::coroutine_handle<promise_type> coroutine;
    };
    return Awaiter{coroutine_};
  }

 private:
  friend promise_type;
  explicit Task(std::coroutine_handle<promise_type> coroutine) noexcept : coroutine_{coroutine} {}

  std::coroutine_handle<promise_type> coroutine_;
};

namespace detail {
template <class T>
Task<T> ValuePromise<T>::get_return_object() noexcept {
  return Task<T>{std::coroutine_handle<ValuePromise>::from_promise(*this)};
}
inline Task<void> ValuePromise<void>::get_return_object() noexcept {
  return Task<void>{std::coroutine_handle<ValuePromise>::from_promise(*this)};
}
}  // namespace detail

}  // namespace rdma

#endif  // __cpp_impl_coroutine
