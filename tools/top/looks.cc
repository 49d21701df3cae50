#include "tools/top/looks.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <system_error>
#include <utility>

namespace verbena::top {

Looks::Looks(Take take, double interval)
    : take_{std::move(take)}, event_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)}, interval_{interval} {
  if (event_ < 0) throw std::system_error{errno, std::generic_category(), "eventfd"};
  thread_ = std::thread{[this] { run(); }};
}

Looks::~Looks() {
  {
    const std::lock_guard lock{mutex_};
    ends_ = true;
  }
  changed_.notify_one();
  thread_.join();
  close(event_);
}

Pair Looks::last() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = read(event_, &count, sizeof count);  // nothing new: so be it
  const std::lock_guard lock{mutex_};
  if (problem_) std::rethrow_exception(problem_);
  return pair_;
}

void Looks::set_interval(double seconds) {
  {
    const std::lock_guard lock{mutex_};
    if (seconds == interval_) return;
    interval_ = seconds;
  }
  changed_.notify_one();
}

void Looks::run() {
  using Clock = std::chrono::steady_clock;
  std::unique_lock lock{mutex_};
  while (!ends_ && !problem_) {
    lock.unlock();
    const auto began = Clock::now();
    Sample sample;
    std::exception_ptr problem;
    try {
      sample = take_();
    } catch (...) {
      problem = std::current_exception();
    }
    lock.lock();
    pair_ = {std::move(pair_.now), std::move(sample)};
    problem_ = problem;
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto told = write(event_, &one, sizeof one);  // it may be told already
    const auto may_look = [&] {
      return ends_ ||
             (interval_ > 0 && Clock::now() >= began + std::chrono::duration<double>{interval_});
    };
    while (!may_look()) {
      if (interval_ > 0) {
        changed_.wait_for(lock, began + std::chrono::duration<double>{interval_} - Clock::now());
      } else {
        changed_.wait(lock);
      }
    }
  }
}

}  // namespace verbena::top
