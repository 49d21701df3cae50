// The event loop that resumes coroutines: when their requests complete, when time has passed, when
// a descriptor is readable. One thread runs it; only stop tokens may be pulled by others.
//
//   Reactor reactor;
//   AsyncConnection conn{reactor, Connection::connect(host, 7471)};
//   reactor.run([&]() -> Task<> { (co_await conn.write(data, remote)).check(); }());
#pragma once

#ifdef __cpp_impl_coroutine

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <coroutine>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rdma++/deadline.h"
#include "rdma++/error.h"
#include "rdma++/task.h"
#include "rdma++/waiter.h"

namespace rdma {

class Reactor {
 public:
  enum class Mode {
    channel,  ///< sleeps until an event comes
    poll,     ///< never sleeps: the lowest latency, a whole core
  };

  explicit Reactor(Mode mode = Mode::channel) : mode_{mode} {
    if (epoll_.fd < 0 || wake_.fd < 0) throw Error{"epoll_create1", "", errno};
    watch(wake_.fd, nullptr);
  }
  /// What was spawned and isn't done is destroyed where it waits. Connections on it live on without
  /// it; coroutines that somebody else holds stay where they are.
  ~Reactor() {
    try {
      collect();
    } catch (const std::exception& failure) {
      report(concat("a spawned task failed after the last run(): ", failure.what()));
    }
    spawned_.clear();
    for (EventSource* const source : sources_) source->reactor_gone();
    while (!waiters_.empty()) waiters_.begin()->second->reactor_gone();
    while (!ready_.empty()) ready_.front()->reactor_gone();
  }
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  /// Runs until this task is done. What was spawned runs beside it, and goes on in the next run().
  template <class T>
  T run(Task<T> task) {
    task.start();
    while (!task.done()) {
      step();
      collect();
    }
    return task.result();
  }
  /// Runs beside whatever run() is given. An exception of it comes out of run().
  void spawn(Task<> task) {
    spawned_.push_back(std::move(task));
    spawned_.back().start();
  }
  /// All of them at once; throws what the first one threw, when all are done.
  Task<> when_all(std::vector<Task<>> tasks);

  class Sleep;
  /// Throws only when it is cancelled.
  [[nodiscard]] Sleep sleep(Deadline until, std::stop_token stop = {});
  class Readable;
  /// Until the descriptor is readable; throws TimedOut or Cancelled.
  [[nodiscard]] Readable readable(int fd, WaitOptions options = {});

  // ---------------------------------------------------------------- for event sources

  void add(EventSource& source, std::initializer_list<int> fds) {
    sources_.push_back(&source);
    for (const int fd : fds) watch(fd, &source);
  }
  void remove(EventSource& source, std::initializer_list<int> fds) {
    for (const int fd : fds) unwatch(fd);
    std::erase(sources_, &source);
  }
  /// The waiter with this id; null when nobody waits any more.
  [[nodiscard]] Waiter* find(std::uint64_t id) const {
    const auto found = waiters_.find(id);
    return found == waiters_.end() ? nullptr : found->second;
  }

 private:
  friend class Waiter;
  struct Descriptor {
    int fd;
    ~Descriptor() { close(fd); }
  };
  class Group;

  /// Ids of requests posted here, apart from those of Connection and of programs.
  static constexpr std::uint64_t kFirstId = std::uint64_t{3} << 62;
  static constexpr unsigned kSpinsPerLook = 64;

  void watch(int fd, EventSource* source, std::uint32_t events = EPOLLIN) {
    epoll_event event{};
    event.events = events;
    event.data.ptr = source;
    if (epoll_ctl(epoll_.fd, EPOLL_CTL_ADD, fd, &event) != 0) throw Error{"epoll_ctl", "", errno};
  }
  void unwatch(int fd) noexcept { epoll_ctl(epoll_.fd, EPOLL_CTL_DEL, fd, nullptr); }

  void step() {
    const bool resumed = resume_ready();
    const bool polled = poll_sources();
    if (fire_timers() || polled || resumed) return;
    if (mode_ == Mode::poll) {
      if (++spins_ % kSpinsPerLook == 0) look(0);  // a system call
      return;
    }
    for (EventSource* const source : sources_) source->arm();
    if (poll_sources()) return;  // came between the last poll and arming
    look(next_wake().poll_timeout());
  }
  bool resume_ready() {
    if (ready_.empty()) return false;
    while (!ready_.empty()) {
      Waiter* const waiter = ready_.front();
      ready_.pop_front();
      waiter->coroutine_.resume();
    }
    return true;
  }
  bool poll_sources() {
    bool any = false;
    for (EventSource* const source : sources_) any |= source->poll();
    return any;
  }
  bool fire_timers() {
    bool any = false;
    const auto now = Deadline::Clock::now();
    while (!timers_.empty() && timers_.begin()->first <= now) {
      Waiter& waiter = *timers_.begin()->second;
      timers_.erase(timers_.begin());
      waiter.timer_.reset();
      waiter.give_up(Waiter::End::timed_out);
      any = true;
    }
    return any;
  }
  [[nodiscard]] Deadline next_wake() const {
    Deadline next = timers_.empty() ? Deadline::never() : Deadline{timers_.begin()->first};
    for (const EventSource* const source : sources_) next = std::min(next, source->wake_at());
    return next;
  }
  void look(int timeout) {
    epoll_event events[16];
    const int count = epoll_wait(epoll_.fd, events, 16, timeout);
    if (count < 0 && errno != EINTR) throw Error{"epoll_wait", "", errno};
    for (int i = 0; i < count; ++i) {
      if (events[i].data.ptr == nullptr) {
        take_stops();
      } else {
        static_cast<EventSource*>(events[i].data.ptr)->readable();
      }
    }
  }
  void take_stops() {
    std::uint64_t count = 0;
    if (read(wake_.fd, &count, sizeof count) < 0) return;  // EAGAIN
    std::vector<std::uint64_t> ids;
    {
      const std::lock_guard lock{stops_mutex_};
      ids.swap(stops_);
    }
    for (const std::uint64_t id : ids) {
      if (Waiter* const waiter = find(id)) waiter->give_up(Waiter::End::cancelled);
    }
  }
  void collect() {
    for (auto task = spawned_.begin(); task != spawned_.end();) {
      if (!task->done()) {
        ++task;
        continue;
      }
      Task<> finished = std::move(*task);
      task = spawned_.erase(task);
      finished.result();
    }
  }

  Mode mode_;
  Descriptor epoll_{epoll_create1(EPOLL_CLOEXEC)};
  Descriptor wake_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::uint64_t next_id_ = kFirstId;
  unsigned spins_ = 0;
  std::unordered_map<std::uint64_t, Waiter*> waiters_;
  std::multimap<Deadline::Clock::time_point, Waiter*> timers_;
  std::deque<Waiter*> ready_;
  std::vector<EventSource*> sources_;
  std::mutex stops_mutex_;
  std::vector<std::uint64_t> stops_;
  std::list<Task<>> spawned_;
};

inline void Waiter::wait(std::coroutine_handle<> coroutine, const WaitOptions& options) {
  coroutine_ = coroutine;
  id_ = reactor_->next_id_++;
  reactor_->waiters_.emplace(id_, this);
  if (!options.deadline.is_never()) {
    timer_ = reactor_->timers_.emplace(options.deadline.at(), this);
  }
  if (options.stop.stop_possible()) on_stop_.emplace(options.stop, Pull{reactor_, id_});
}

inline void Waiter::finish(End how) {
  if (id_ == 0) return;  // a stop and what was waited for came together
  if (end_ == End::none) end_ = how;
  on_stop_.reset();
  if (timer_) reactor_->timers_.erase(*std::exchange(timer_, std::nullopt));
  reactor_->waiters_.erase(id_);
  id_ = 0;
  reactor_->ready_.push_back(this);
}

inline void Waiter::reactor_gone() noexcept {
  on_stop_.reset();
  if (timer_) reactor_->timers_.erase(*std::exchange(timer_, std::nullopt));
  if (id_ != 0) reactor_->waiters_.erase(std::exchange(id_, 0));
  if (end_ != End::none) std::erase(reactor_->ready_, this);
  reactor_ = nullptr;
}

inline Waiter::~Waiter() {
  if (reactor_ != nullptr) reactor_gone();
}

inline void Waiter::Pull::operator()() const noexcept {
  const std::uint64_t one = 1;
  const std::lock_guard lock{reactor->stops_mutex_};
  reactor->stops_.push_back(id);
  // Only full when 2^64 - 2 stops wait: then the loop is awake anyway.
  [[maybe_unused]] const auto written = write(reactor->wake_.fd, &one, sizeof one);
}

}  // namespace rdma

#include "rdma++/reactor_waits.h"

#endif  // __cpp_impl_coroutine
