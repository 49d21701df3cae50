#include "host/nic_thread.h"

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
#include <span>

#include "host/clock.h"
#include "host/log.h"
#include "system/kernel_calls.h"

namespace verbena::host {

namespace {

/// What a descriptor is watched for.
enum Watched : std::uint32_t { kWake, kData, kControl };

bool watch(int epoll, int fd, Watched what) {
  epoll_event e{};
  e.events = EPOLLIN;
  e.data.u32 = what;
  return kernel::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) == 0;
}

timespec until_from_now(Instant until) {
  const Duration left = std::max<Duration>(until - now(), Duration{0});
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  return {static_cast<time_t>(seconds.count()), static_cast<long>((left - seconds).count())};
}

}  // namespace

Status NicThread::start(int data_fd, std::span<const int> control_fds) {
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  aside_epoll_ = kernel::epoll_create1(EPOLL_CLOEXEC);
  full_epoll_ = kernel::epoll_create1(EPOLL_CLOEXEC);
  const bool ready = wake_fd_ >= 0 && aside_epoll_ >= 0 && full_epoll_ >= 0 &&
                     watch(aside_epoll_, wake_fd_, kWake) && watch(full_epoll_, wake_fd_, kWake) &&
                     watch(full_epoll_, data_fd, kData) &&
                     std::all_of(control_fds.begin(), control_fds.end(), [&](int fd) {
                       return watch(aside_epoll_, fd, kControl) && watch(full_epoll_, fd, kControl);
                     });
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

bool NicThread::watch_data(int fd) { return watch(full_epoll_, fd, kData); }

void NicThread::wake_by(Instant deadline) {
  Instant asleep = asleep_until_.load();
  while (deadline < asleep) {
    if (!asleep_until_.compare_exchange_weak(asleep, deadline)) continue;
    eventfd_write(wake_fd_, 1);  // fails only when it is set already
    return;
  }
}

NicThread::Woken NicThread::wait(int epoll, Instant until) {
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

  Woken woken;
  for (const epoll_event& e : std::span{events}.first(n > 0 ? static_cast<std::size_t>(n) : 0)) {
    if (e.data.u32 == kWake) {
      eventfd_t count = 0;
      eventfd_read(wake_fd_, &count);
      woken.otherwise = true;
    } else if (e.data.u32 == kData) {
      woken.data = true;
    } else {
      woken.control = true;
    }
  }
  return woken;
}

void NicThread::return_to_duty() {
  waited_for_.store(false, std::memory_order_relaxed);
  if (!aside_.load(std::memory_order_relaxed) || !aside_.exchange(false)) return;
  eventfd_write(wake_fd_, 1);
}

void NicThread::step_aside() {
  Duration usual = kAsideMin;
  Duration nap = usual;
  aside_.store(true);
  for (;;) {
    asleep_until_.store(Instant::min());  // the poller does whatever comes up
    const Woken woken = wait(aside_epoll_, now() + nap);
    asleep_until_.store(kNever);
    if (woken.control) work_.work(true);
    if (!aside_.load()) break;
    const Duration silence = now() - last_polled_.load(std::memory_order_relaxed);
    if (silence <= kPolling) {
      usual = std::min(2 * usual, kAsideMax);
      nap = usual;
      continue;
    }
    // Who has polled for long may be waiting for a core, and be back soon.
    const Duration patience = usual / kPatienceShare;
    if (silence > patience) break;
    nap = patience - silence;
  }
  aside_.exchange(false);  // reads what will_look() wrote
}

NicThread::Woken NicThread::linger(Instant until) {
  const Instant end = std::min(until, now() + kLinger);
  Woken woken;
  do {
    woken = wait(full_epoll_, Instant{});
  } while (!woken.at_all() && now() < end && !is_waited_for());
  return woken;
}

NicThread::Woken NicThread::wait_on_duty(const Work::Outcome& last) {
  const Instant begin = now();
  if (lingers_ && !is_waited_for() && spare_core_.exists(begin, last.woke ? 1 : 0)) {
    const Woken woken = linger(last.deadline);
    if (woken.at_all()) return woken;
  }
  const Woken woken = wait(full_epoll_, last.deadline);
  lingers_ = woken.data && now() - begin < kLinger;
  return woken;
}

bool NicThread::is_waited_for() const {
  return waited_for_.load(std::memory_order_relaxed) &&
         now() - last_polled_.load(std::memory_order_relaxed) <= kPolling;
}

void NicThread::run() {
  int outrun = 0;
  Work::Outcome outcome{now(), false, false};
  for (;;) {
    if (outrun >= kOutrunLimit) {
      step_aside();
      outrun = 0;
      outcome.deadline = now();  // whatever the poller left behind
    }
    asleep_until_.store(outcome.deadline);
    const Woken woken = wait_on_duty(outcome);
    asleep_until_.store(kNever);
    const bool waited_for = is_waited_for();
    outcome = work_.work(woken.control);
    // Who polls would have got there, had this thread not had its core.
    if (woken.data) outrun = outcome.useful && !waited_for ? 0 : outrun + 1;
  }
}

void NicThread::abandon() {
  spare_core_.abandon();
  for (int* fd : {&wake_fd_, &aside_epoll_, &full_epoll_}) {
    if (*fd >= 0) kernel::close(*fd);
    *fd = -1;
  }
}

}  // namespace verbena::host
