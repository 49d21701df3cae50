#include "host/events/descriptor_watch.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "host/log.h"
#include "system/kernel_calls.h"

namespace verbena::host {
namespace {

/// What the thread begins with.
struct Start {
  const DescriptorWatch* watch;
  int epoll;
};

Error failed(const char* call, int code) {
  return {code,
          fmt::format("{} for a thread that watches descriptors: {}", call, std::strerror(code))};
}

}  // namespace

Status DescriptorWatch::start() {
  const int epoll = kernel::epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) return failed("epoll_create1", errno);
  // The program's signals are for the program's threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  auto how = std::make_unique<Start>(Start{this, epoll});
  pthread_t thread{};
  const int refused = pthread_create(
      &thread, nullptr,
      [](void* given) -> void* {
        const std::unique_ptr<Start> mine{static_cast<Start*>(given)};
        mine->watch->run(mine->epoll);
        return nullptr;
      },
      how.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (refused != 0) {
    kernel::close(epoll);
    return failed("pthread_create", refused);
  }
  static_cast<void>(how.release());
  pthread_setname_np(thread, "verbena-watch");
  pthread_detach(thread);
  epoll_ = epoll;
  return Ok{};
}

Status DescriptorWatch::add(int fd, std::uint64_t key) {
  if (epoll_ < 0) {
    if (auto started = start(); !started) return started;
  }
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.u64 = key;
  if (kernel::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) return failed("epoll_ctl", errno);
  return Ok{};
}

void DescriptorWatch::remove(int fd) const {
  if (epoll_ >= 0) kernel::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
}

void DescriptorWatch::forget() {
  if (epoll_ >= 0) kernel::close(std::exchange(epoll_, -1));
}

void DescriptorWatch::run(int epoll) const {
  for (;;) {
    std::array<epoll_event, 16> events{};
    const int n = kernel::epoll_wait(epoll, events.data(), static_cast<int>(events.size()), -1);
    if (n < 0 && errno != EINTR) {
      log(LogLevel::error, "epoll_wait: {}", std::strerror(errno));
      return;
    }
    for (int i = 0; i < n; ++i) callback_(events[static_cast<std::size_t>(i)].data.u64);
  }
}

}  // namespace verbena::host
