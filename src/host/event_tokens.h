#pragma once

// What makes a channel's descriptor readable: an eventfd that counts the events that wait.

#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "base/result.h"

namespace verbena::host {

class EventTokens {
 public:
  /// -1 and errno: there is none.
  EventTokens() : fd_{eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC)} {}
  ~EventTokens() {
    if (fd_ >= 0) close(fd_);
  }
  EventTokens(const EventTokens&) = delete;
  EventTokens& operator=(const EventTokens&) = delete;

  [[nodiscard]] int fd() const { return fd_; }

  /// Fails only when 2^64 - 2 wait.
  void give() { static_cast<void>(eventfd_write(fd_, 1)); }
  /// Waits for one, or says EAGAIN, as the descriptor's flags want it. EINTR.
  [[nodiscard]] bool take() {
    eventfd_t one = 0;
    return eventfd_read(fd_, &one) == 0;
  }
  /// Those of events that are forgotten; never waits. A kernel before 5.8 can't: whoever takes one
  /// then finds nothing, and waits on.
  void take_back(std::size_t count) {
    const int error = errno;
    eventfd_t one = 0;
    const iovec into{&one, sizeof one};
    while (count > 0 && preadv2(fd_, &into, 1, -1, RWF_NOWAIT) > 0) --count;
    errno = error;
  }

 private:
  const int fd_;
};

}  // namespace verbena::host
