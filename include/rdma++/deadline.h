// Until when to wait.
#pragma once

#include <algorithm>
#include <chrono>
#include <climits>

namespace rdma {

using namespace std::chrono_literals;

/// A moment of the steady clock, or never. A duration converts to "that long from now".
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  constexpr Deadline(Clock::time_point at) noexcept : at_{at} {}
  template <class Rep, class Period>
  Deadline(std::chrono::duration<Rep, Period> from_now) : at_{after(from_now)} {}

  [[nodiscard]] static constexpr Deadline never() noexcept { return Clock::time_point::max(); }

  [[nodiscard]] bool is_never() const noexcept { return at_ == Clock::time_point::max(); }
  [[nodiscard]] bool passed() const { return !is_never() && Clock::now() >= at_; }
  [[nodiscard]] Clock::time_point at() const noexcept { return at_; }

  /// For poll(2) and epoll_wait(2): rounded up, so that it isn't early; -1 is never.
  [[nodiscard]] int poll_timeout() const {
    if (is_never()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now()).count();
    return static_cast<int>(std::clamp<decltype(left)>(left, 0, INT_MAX));
  }

  friend bool operator==(Deadline, Deadline) = default;
  friend auto operator<=>(Deadline, Deadline) = default;

 private:
  template <class Duration>
  static Clock::time_point after(Duration duration) {
    const auto now = Clock::now();
    // Longer than the clock can tell: never.
    if (std::chrono::duration<double>(duration) >=
        std::chrono::duration<double>(Clock::time_point::max() - now)) {
      return Clock::time_point::max();
    }
    return now + std::chrono::duration_cast<Clock::duration>(duration);
  }

  Clock::time_point at_;
};

}  // namespace rdma
