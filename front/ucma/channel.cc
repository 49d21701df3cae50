#include "front/ucma/channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "front/preload/next.h"
#include "front/ucma/descriptors.h"

namespace verbena::front::ucma {

namespace {

int close_real(int fd) { return next::get<"close", int(int)>()(fd); }

Error refused(const char* what) {
  return Error{errno, std::string{what} + ": " + std::strerror(errno)};
}

}  // namespace

Result<Channel*> Channel::open(bool close_on_exec, bool nonblocking, int& fd) {
  std::array<int, 2> ends{-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return refused("socketpair for the event channel");
  }
  struct stat status {};
  if (!close_on_exec) ::fcntl(ends[0], F_SETFD, 0);
  if (nonblocking) ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  const bool known = next::get<"fstat", decltype(fstat)>()(ends[0], &status) == 0;
  if (!known || !remember_descriptor(ends[0], status.st_ino)) {
    const Error error = known ? Error{EMFILE, "descriptor " + std::to_string(ends[0]) +
                                                  " is beyond what event channels can have: close "
                                                  "some, or lower the limit (ulimit -n)"}
                              : refused("fstat of the event channel");
    close_real(ends[0]);
    close_real(ends[1]);
    return error;
  }
  fd = ends[0];
  auto* const channel = new Channel{ends[1]};
  channel->inode = status.st_ino;
  return channel;
}

Channel::~Channel() { close_real(ours_); }

void Channel::announce() {
  if (announced_ || events.empty()) return;
  const char byte = 1;
  announced_ = send(ours_, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

void Channel::add(const QueuedEvent& event) {
  events.push_back(event);
  announce();
}

QueuedEvent Channel::take(int fd) {
  const QueuedEvent event = events.front();
  events.pop_front();
  if (events.empty()) quieten(fd);
  return event;
}

void Channel::quieten(int fd) {
  char byte = 0;
  // The number may be another file's by now.
  if (channel_inode(fd) != inode) return;
  if (announced_ && recv(fd, &byte, 1, MSG_DONTWAIT) == 1) announced_ = false;
}

bool Channel::abandoned() const {
  pollfd end{.fd = ours_, .events = 0, .revents = 0};
  return poll(&end, 1, 0) == 1 && (end.revents & POLLHUP) != 0;
}

}  // namespace verbena::front::ucma
