#include "front/ucma/channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "front/preload/next.h"
#include "front/ucma/descriptors.h"
#include "system/kernel_calls.h"

namespace verbena::front::ucma {

namespace {

Error refused(const char* what) {
  return Error{errno, std::string{what} + ": " + std::strerror(errno)};
}

/// Fills the buffer of what goes from `end` to the other one, where nobody reads: `end` is not
/// writable from then on.
void never_writable(int end) {
  const int least = 1;  // the kernel makes it as large as it must be: a few KiB
  kernel::setsockopt(end, SOL_SOCKET, SO_SNDBUF, &least, sizeof least);
  const std::array<char, 1024> filling{};
  while (kernel::send(end, filling.data(), filling.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
  }
}

}  // namespace

Result<Channel*> Channel::open(bool close_on_exec, bool nonblocking, int& fd) {
  std::array<int, 2> ends{-1, -1};
  if (kernel::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return refused("socketpair for the event channel");
  }
  never_writable(ends[0]);
  struct stat status {};
  if (!close_on_exec) kernel::fcntl(ends[0], F_SETFD, 0);
  if (nonblocking) kernel::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  const bool known = next::get<"fstat", decltype(fstat)>()(ends[0], &status) == 0;
  if (!known || !remember_descriptor(ends[0], status.st_ino)) {
    const Error error = known ? Error{EMFILE, "descriptor " + std::to_string(ends[0]) +
                                                  " is too large for an event channel: close "
                                                  "some, or lower the limit (ulimit -n)"}
                              : refused("fstat of the event channel");
    kernel::close(ends[0]);
    kernel::close(ends[1]);
    return error;
  }
  fd = ends[0];
  auto* const channel = new Channel{ends[1]};
  channel->inode = status.st_ino;
  return channel;
}

Channel::~Channel() { kernel::close(ours_); }

/// A byte for every event, so that each is an edge for whoever watches for one.
void Channel::announce() {
  const char byte = 1;
  if (kernel::send(ours_, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1) ++unread_;
}

void Channel::add(const QueuedEvent& event) {
  events.push_back(event);
  events.back().since = std::chrono::steady_clock::now();
  announce();
}

QueuedEvent Channel::take(int fd) {
  const QueuedEvent event = events.front();
  events.pop_front();
  // Far fewer than the socket has room for: there is always some for the next one.
  constexpr std::size_t kMany = 64;
  if (events.empty()) {
    quieten(fd);
  } else if (unread_ > kMany) {
    receive(fd, unread_ - 1);
  }
  return event;
}

void Channel::quieten(int fd) { receive(fd, unread_); }

void Channel::receive(int fd, std::size_t count) {
  // The number may be another file's by now.
  if (channel_inode(fd) != inode) return;
  std::array<char, 512> bytes;
  while (count > 0) {
    const ssize_t n = kernel::recv(fd, bytes.data(), std::min(count, bytes.size()), MSG_DONTWAIT);
    if (n <= 0) return;
    count -= static_cast<std::size_t>(n);
    unread_ -= static_cast<std::size_t>(n);
  }
}

bool Channel::abandoned() const {
  pollfd end{.fd = ours_, .events = 0, .revents = 0};
  return kernel::poll(&end, 1, 0) == 1 && (end.revents & POLLHUP) != 0;
}

}  // namespace verbena::front::ucma
