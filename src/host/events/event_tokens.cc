#include "host/events/event_tokens.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "system/kernel_calls.h"
#include "system/long_waits.h"

namespace verbena::host {

namespace {

/// With one page a pipe is full as soon as the end of the page is reached, however little is in it.
/// More would count against what a user may have in pipes without need.
constexpr int kPages = 2;

using Bytes = std::array<char, 512>;  // what is in them doesn't matter

}  // namespace

EventTokens::EventTokens() {
  if (pipe2(ends_.data(), O_CLOEXEC) != 0) return;
  // With an end that reads as well, the pipe has a reader even if the program closes its own: no
  // SIGPIPE. Where there is no /proc, that is the program's risk.
  const std::string name = "/proc/self/fd/" + std::to_string(ends_[1]);
  if (const int both = open(name.c_str(), O_RDWR | O_CLOEXEC); both >= 0) {
    kernel::close(std::exchange(ends_[1], both));
  }
  static_cast<void>(kernel::fcntl(ends_[1], F_SETFL, O_NONBLOCK));
  static_cast<void>(kernel::fcntl(ends_[1], F_SETPIPE_SZ, kPages * sysconf(_SC_PAGESIZE)));
}

EventTokens::~EventTokens() {
  for (const int end : ends_) {
    if (end >= 0) kernel::close(end);
  }
}

bool EventTokens::blocks() const {
  const int flags = kernel::fcntl(fd(), F_GETFL);
  return flags >= 0 && (flags & O_NONBLOCK) == 0;
}

bool EventTokens::take() {
  char byte = 0;
  const ssize_t n = kernel::wait_and_read(fd(), &byte, 1);
  if (n == 0) kernel::wait_for_signal();  // nobody writes any more: this object is no longer there
  return n == 1;
}

void EventTokens::give() {
  const char byte = 0;
  if (owed_ > 0 || kernel::write(ends_[1], &byte, 1) != 1) ++owed_;
}

void EventTokens::pay() {
  const Bytes bytes{};
  while (owed_ > 0) {
    const ssize_t n = kernel::write(ends_[1], bytes.data(), std::min(owed_, bytes.size()));
    if (n <= 0) return;
    owed_ -= static_cast<std::size_t>(n);
  }
}

void EventTokens::take_back(std::size_t count) {
  const int error = errno;
  const std::size_t unpaid = std::min(owed_, count);
  owed_ -= unpaid;
  count -= unpaid;
  // The one call that reads from a pipe without waiting whatever the program's flags are.
  Bytes bytes;
  while (count > 0) {
    const iovec into{bytes.data(), std::min(count, bytes.size())};
    const ssize_t n = vmsplice(fd(), &into, 1, SPLICE_F_NONBLOCK);
    if (n <= 0) break;  // a get() has it in its hand
    count -= static_cast<std::size_t>(n);
  }
  pay();
  errno = error;
}

}  // namespace verbena::host
