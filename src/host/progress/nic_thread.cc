#include "host/progress/nic_thread.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <initializer_list>
#include <span>

#include "host/clock.h"
#include "host/log.h"
#include "memory/fault_handler.h"
#include "system/kernel_calls.h"

namespace verbena::host {

namespace {

/// What a descriptor is watched for.
enum Watched : std::uint32_t { kWake, kData, kControl };

bool watch(int epoll, int fd, Watched what, std::uint32_t how = 0) {
  epoll_event e{};
  e.events = EPOLLIN | how;
  e.data.u32 = what;
  return kernel::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) == 0;
}

timespec until_from_now(Instant until) {
  const Duration left = std::max<Duration>(until - now(), Duration{0});
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  return {static_cast<time_t>(seconds.count()), static_cast<long>((left - seconds).count())};
}

}  // namespace

Status NicThread::start(const Descriptors& watched) {
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  aside_epoll_ = kernel::epoll_create1(EPOLL_CLOEXEC);
  quiet_epoll_ = kernel::epoll_create1(EPOLL_CLOEXEC);
  full_epoll_ = kernel::epoll_create1(EPOLL_CLOEXEC);
  const auto watch_all = [](std::initializer_list<int> sets, const std::vector<int>& descriptors,
                            Watched what, std::uint32_t how = 0) {
    return std::ranges::all_of(sets, [&](int set) {
      return std::ranges::all_of(descriptors,
                                 [&](int fd) { return fd < 0 || watch(set, fd, what, how); });
    });
  };
  const bool ready =
      wake_fd_ >= 0 && aside_epoll_ >= 0 && quiet_epoll_ >= 0 && full_epoll_ >= 0 &&
      watch_all({aside_epoll_, quiet_epoll_, full_epoll_}, {wake_fd_}, kWake) &&
      watch_all({full_epoll_}, watched.bells, kData, EPOLLET) &&
      watch_all({quiet_epoll_, full_epoll_}, watched.data, kData) &&
      watch_all({aside_epoll_, quiet_epoll_, full_epoll_}, watched.control, kControl);
  if (!ready) {
    const int why = errno;
    abandon();
    return Error{why, fmt::format("descriptors for the NIC thread: {}", std::strerror(why))};
  }

  // The program's signals are for the program's threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const int failed = pthread_create(
      &thread, nullptr,
      [](void* self) -> void* {
        static_cast<NicThread*>(self)->run();
        return nullptr;
      },
      this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failed != 0) {
    abandon();
    return Error{failed,
                 fmt::format("pthread_create for the NIC thread: {}", std::strerror(failed))};
  }
  pthread_setname_np(thread, "verbena-nic");
  pthread_detach(thread);
  return Ok{};
}

bool NicThread::watch_data(int fd) {
  return watch(full_epoll_, fd, kData) && watch(quiet_epoll_, fd, kData);
}

void NicThread::wake_by(Instant deadline) {
  Instant asleep = asleep_until_.load();
  while (deadline < asleep) {
    if (!asleep_until_.compare_exchange_weak(asleep, deadline)) continue;
    eventfd_write(wake_fd_, 1);  // fails only if it is set already
    return;
  }
}

void NicThread::return_to_duty() {
  poller_waits_.store(false, std::memory_order_relaxed);
  if (!aside_.load(std::memory_order_relaxed) || !aside_.exchange(false)) return;
  eventfd_write(wake_fd_, 1);
}

void NicThread::end_relief(Instant now) {
  relief_ended_.store(now);
  relieved_.store(false);
  wake_by(now + ProgressPolicy::kReliefGrace);
}

ProgressPolicy::Facts NicThread::facts() const {
  const bool recalled = !aside_.load();
  return {.now = now(),
          .last_poll = last_poll_.load(std::memory_order_relaxed),
          .poller_waits = poller_waits_.load(std::memory_order_relaxed),
          .recalled = recalled,
          .relieved = relieved_.load(),
          .relief_ended = relief_ended_.load()};
}

void NicThread::announce(Instant deadline) {
  // Once for all the looks and the sleep between two rounds: wake_by() may have put an earlier
  // instant here meanwhile.
  if (announced_) return;
  announced_ = true;
  asleep_until_.store(deadline);
}

NicThread::Wakeup NicThread::wait(int epoll, Instant until) {
  std::array<epoll_event, 4> events{};
  const timespec left = until_from_now(until);
  int n = kernel::epoll_pwait2(epoll, events.data(), events.size(),
                               until == kNever ? nullptr : &left, nullptr);
  if (n < 0 && (errno == ENOSYS || errno == EPERM)) {  // before Linux 5.11; some sandboxes
    const bool at_once = left.tv_sec == 0 && left.tv_nsec == 0;
    const auto ms = at_once ? 0 : left.tv_sec * 1000 + left.tv_nsec / 1'000'000 + 1;
    n = kernel::epoll_wait(epoll, events.data(), events.size(),
                           until == kNever ? -1 : static_cast<int>(std::min<long>(ms, INT_MAX)));
  }
  if (n < 0 && errno != EINTR)
    log(LogLevel::error, "epoll_pwait2 in the NIC thread: errno {}", errno);

  Wakeup wakeup;
  for (const epoll_event& e : std::span{events}.first(n > 0 ? static_cast<std::size_t>(n) : 0)) {
    if (e.data.u32 == kWake) {
      eventfd_t count = 0;
      eventfd_read(wake_fd_, &count);
      wakeup.other = true;
    } else if (e.data.u32 == kData) {
      wakeup.data = true;
    } else {
      wakeup.control = true;
    }
  }
  return wakeup;
}

NicThread::Step NicThread::work(bool control) {
  announced_ = false;
  asleep_until_.store(kNever);
  const Work::Outcome outcome = work_.work(control);
  return policy_.worked(outcome, facts());
}

NicThread::Step NicThread::nap(Instant until) {
  asleep_until_.store(Instant::min());
  const Wakeup wakeup = wait(aside_epoll_, until);
  asleep_until_.store(kNever);
  return policy_.napped(wakeup, facts());
}

NicThread::Step NicThread::carry_out(const Step& step) {
  switch (step.kind) {
    case Step::Kind::work:
      return work(step.control);
    case Step::Kind::ask_for_core: {
      announce(step.until);
      const bool core_is_spare = spare_core_.exists(now(), step.others);
      return policy_.asked(core_is_spare, now());
    }
    case Step::Kind::look: {
      announce(step.until);
      const Wakeup wakeup = work_.arrived() ? Wakeup{.data = true} : wait(full_epoll_, Instant{});
      return policy_.looked(wakeup, facts());
    }
    case Step::Kind::sleep:
    case Step::Kind::stand_by: {
      announce(step.until);
      const int epoll = step.kind == Step::Kind::sleep ? full_epoll_ : quiet_epoll_;
      const Wakeup wakeup = work_.may_sleep() ? wait(epoll, step.until) : Wakeup{.data = true};
      return policy_.woken(wakeup, facts());
    }
    case Step::Kind::step_aside:
      aside_.store(true);
      return nap(step.until);
    case Step::Kind::nap:
      return nap(step.until);
    case Step::Kind::come_back:
      aside_.exchange(false);  // reads what will_look() wrote
      return policy_.came_back(facts());
  }
  return policy_.start(now());  // not reached: the kinds are all there
}

void NicThread::run() {
  memory::catch_faults_of_own_thread();
  for (Step step = policy_.start(now());;) step = carry_out(step);
}

void NicThread::abandon() {
  spare_core_.abandon();
  for (int* fd : {&wake_fd_, &aside_epoll_, &quiet_epoll_, &full_epoll_}) {
    if (*fd >= 0) kernel::close(*fd);
    *fd = -1;
  }
}

}  // namespace verbena::host
