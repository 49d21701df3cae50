#pragma once

// System calls on descriptors, made without libc's functions. Two kinds of libraries stand before
// those, and must not get our calls, though they get the program's:
//  - rdma-core's librspreload turns sockets and epoll sets into librdmacm's, which work through us:
//    a call of ours would come back to us, and wait for a lock that its caller has;
//  - the runtime of a sanitizer that the program was built with. It doesn't see how our library,
//    built without it, tells the program of a copy, so ThreadSanitizer would report a race.
//    Sanitizers don't see writes made by a NIC.
// Our own builds with a sanitizer see both sides, and keep the wrappers.

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <ctime>

namespace verbena::kernel {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)

using ::accept4;
using ::bind;
using ::close;
using ::connect;
using ::epoll_create1;
using ::epoll_ctl;
using ::epoll_pwait2;
using ::epoll_wait;
using ::fcntl;
using ::getsockname;
using ::getsockopt;
using ::listen;
using ::poll;
using ::pread;
using ::preadv;
using ::pwrite;
using ::pwritev;
using ::read;
using ::recv;
using ::recvfrom;
using ::recvmmsg;
using ::recvmsg;
using ::send;
using ::sendmmsg;
using ::sendmsg;
using ::sendto;
using ::setsockopt;
using ::socket;
using ::socketpair;
using ::write;

#else

// Offsets and times are one argument.
static_assert(sizeof(long) == 8 && sizeof(off_t) == 8 && sizeof(time_t) == 8);

/// One that returns an int.
template <typename... Args>
int call(long number, Args... args) {
  return static_cast<int>(syscall(number, args...));
}

inline int accept4(int fd, sockaddr* from, socklen_t* size, int flags) {
  return call(SYS_accept4, fd, from, size, flags);
}
inline int bind(int fd, const sockaddr* to, socklen_t size) { return call(SYS_bind, fd, to, size); }
inline int close(int fd) { return call(SYS_close, fd); }
inline int connect(int fd, const sockaddr* to, socklen_t size) {
  return call(SYS_connect, fd, to, size);
}
inline int epoll_create1(int flags) { return call(SYS_epoll_create1, flags); }
inline int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) {
  return call(SYS_epoll_ctl, epoll, operation, fd, event);
}
inline int epoll_wait(int epoll, epoll_event* events, int count, int milliseconds) {
  return call(SYS_epoll_pwait, epoll, events, count, milliseconds, nullptr, std::size_t{0});
}
/// Without a signal mask.
inline int epoll_pwait2(int epoll, epoll_event* events, int count, const timespec* time,
                        std::nullptr_t) {
  return call(SYS_epoll_pwait2, epoll, events, count, time, nullptr, std::size_t{0});
}
template <typename... Argument>
int fcntl(int fd, int command, Argument... argument) {
  return call(SYS_fcntl, fd, command, argument...);
}
inline int getsockname(int fd, sockaddr* name, socklen_t* size) {
  return call(SYS_getsockname, fd, name, size);
}
inline int getsockopt(int fd, int level, int option, void* value, socklen_t* size) {
  return call(SYS_getsockopt, fd, level, option, value, size);
}
inline int listen(int fd, int backlog) { return call(SYS_listen, fd, backlog); }
/// Milliseconds; -1 for ever.
inline int poll(pollfd* fds, nfds_t count, int milliseconds) {
  timespec time{milliseconds / 1000, milliseconds % 1000 * 1'000'000L};
  return call(SYS_ppoll, fds, count, milliseconds < 0 ? nullptr : &time, nullptr, std::size_t{0});
}
inline ssize_t pread(int fd, void* into, std::size_t size, off_t at) {
  return syscall(SYS_pread64, fd, into, size, at);
}
inline ssize_t preadv(int fd, const iovec* pieces, int count, off_t at) {
  return syscall(SYS_preadv, fd, pieces, long{count}, at, 0L);
}
inline ssize_t pwrite(int fd, const void* from, std::size_t size, off_t at) {
  return syscall(SYS_pwrite64, fd, from, size, at);
}
inline ssize_t pwritev(int fd, const iovec* pieces, int count, off_t at) {
  return syscall(SYS_pwritev, fd, pieces, long{count}, at, 0L);
}
inline ssize_t read(int fd, void* into, std::size_t size) {
  return syscall(SYS_read, fd, into, size);
}
inline ssize_t recvfrom(int fd, void* into, std::size_t size, int flags, sockaddr* from,
                        socklen_t* from_size) {
  return syscall(SYS_recvfrom, fd, into, size, flags, from, from_size);
}
inline ssize_t recv(int fd, void* into, std::size_t size, int flags) {
  return recvfrom(fd, into, size, flags, nullptr, nullptr);
}
inline int recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags, timespec* time) {
  return call(SYS_recvmmsg, fd, messages, count, flags, time);
}
inline ssize_t recvmsg(int fd, msghdr* message, int flags) {
  return syscall(SYS_recvmsg, fd, message, flags);
}
inline ssize_t sendto(int fd, const void* from, std::size_t size, int flags, const sockaddr* to,
                      socklen_t to_size) {
  return syscall(SYS_sendto, fd, from, size, flags, to, to_size);
}
inline ssize_t send(int fd, const void* from, std::size_t size, int flags) {
  return sendto(fd, from, size, flags, nullptr, 0);
}
inline int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
  return call(SYS_sendmmsg, fd, messages, count, flags);
}
inline ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  return syscall(SYS_sendmsg, fd, message, flags);
}
inline int setsockopt(int fd, int level, int option, const void* value, socklen_t size) {
  return call(SYS_setsockopt, fd, level, option, value, size);
}
inline int socket(int family, int type, int protocol) {
  return call(SYS_socket, family, type, protocol);
}
inline int socketpair(int family, int type, int protocol, int* ends) {
  return call(SYS_socketpair, family, type, protocol, ends);
}
inline ssize_t write(int fd, const void* from, std::size_t size) {
  return syscall(SYS_write, fd, from, size);
}

#endif

}  // namespace verbena::kernel
