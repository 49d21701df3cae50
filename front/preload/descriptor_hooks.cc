// The functions of descriptors that we stand before, for the sake of /dev/infiniband/rdma_cm
// (librdmacm asks whether it is a character device, and writes commands to it) and of the counters
// below /sys/class/infiniband, which are read again and again. Everything else passes through.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdlib>

#include "front/preload/appearance.h"
#include "front/preload/next.h"
#include "front/sysfs/open_files.h"
#include "front/ucma/character_device.h"
#include "front/ucma/descriptors.h"
#include "front/verbs/export.h"

VERBENA_EXPORT ssize_t __read_chk(int fd, void* to, size_t size, size_t room);
VERBENA_EXPORT ssize_t __pread_chk(int fd, void* to, size_t size, off_t offset, size_t room);

using namespace verbena::front;

namespace {

// Then the functions with and without "64" are the same.
static_assert(sizeof(struct stat) == sizeof(struct stat64) && sizeof(off_t) == 8);

template <typename Stat>
int correct(int fd, int result, Stat* s) {
  if (result == 0 && S_ISSOCK(s->st_mode) && ucma::channel_inode(fd)) look_like(*s, cm_device());
  return result;
}

/// `copy` refers to what `fd` refers to.
int copied(int fd, int copy) {
  if (copy < 0) return copy;
  if (const auto channel = ucma::channel_inode(fd)) {
    static_cast<void>(ucma::remember_descriptor(copy, *channel));
  }
  sysfs::file_copied(fd, copy);
  return copy;
}

/// Before the program can be in a signal handler.
[[gnu::constructor]] void look_up_descriptors() {
  static_cast<void>(next::get<"fstat", decltype(fstat)>());
  static_cast<void>(next::get<"fstat64", decltype(fstat64)>());
  static_cast<void>(next::get<"write", decltype(write)>());
  static_cast<void>(next::get<"close", decltype(close)>());
  static_cast<void>(next::get<"dup", decltype(dup)>());
  static_cast<void>(next::get<"dup2", decltype(dup2)>());
  static_cast<void>(next::get<"dup3", decltype(dup3)>());
  static_cast<void>(next::get<"fcntl", decltype(fcntl)>());
  static_cast<void>(next::get<"read", decltype(read)>());
  static_cast<void>(next::get<"readv", decltype(readv)>());
  static_cast<void>(next::get<"pread", decltype(pread)>());
}

}  // namespace

VERBENA_EXPORT int fstat(int fd, struct stat* s) {
  return correct(fd, next::get<"fstat", decltype(fstat)>()(fd, s), s);
}
VERBENA_EXPORT int fstat64(int fd, struct stat64* s) {
  return correct(fd, next::get<"fstat64", decltype(fstat64)>()(fd, s), s);
}

VERBENA_EXPORT ssize_t write(int fd, const void* bytes, size_t size) {
  if (const auto channel = ucma::channel_inode(fd)) {
    return ucma::write_device(fd, *channel, bytes, size);
  }
  return next::get<"write", decltype(write)>()(fd, bytes, size);
}

VERBENA_EXPORT int close(int fd) {
  const auto channel = ucma::channel_inode(fd);
  if (channel) ucma::forget_descriptor(fd);
  sysfs::file_closed(fd);
  const int result = next::get<"close", decltype(close)>()(fd);
  if (channel) ucma::channel_closed(*channel);
  return result;
}

VERBENA_EXPORT int dup(int fd) { return copied(fd, next::get<"dup", decltype(dup)>()(fd)); }
VERBENA_EXPORT int dup2(int fd, int to) {
  return copied(fd, next::get<"dup2", decltype(dup2)>()(fd, to));
}
VERBENA_EXPORT int dup3(int fd, int to, int flags) {
  return copied(fd, next::get<"dup3", decltype(dup3)>()(fd, to, flags));
}

VERBENA_EXPORT int fcntl(int fd, int command, ...) {
  va_list more;
  va_start(more, command);
  void* const argument = va_arg(more, void*);  // an int or a pointer, as in libc's own
  va_end(more);
  const int result = next::get<"fcntl", decltype(fcntl)>()(fd, command, argument);
  return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? copied(fd, result) : result;
}
VERBENA_EXPORT int fcntl64(int fd, int command, ...) __attribute__((alias("fcntl")));

VERBENA_EXPORT ssize_t read(int fd, void* to, size_t size) {
  sysfs::refresh_at_start(fd);
  return next::get<"read", decltype(read)>()(fd, to, size);
}

VERBENA_EXPORT ssize_t readv(int fd, const struct iovec* to, int count) {
  sysfs::refresh_at_start(fd);
  return next::get<"readv", decltype(readv)>()(fd, to, count);
}

VERBENA_EXPORT ssize_t pread(int fd, void* to, size_t size, off_t offset) {
  if (offset == 0) sysfs::refresh(fd);
  return next::get<"pread", decltype(pread)>()(fd, to, size, offset);
}
VERBENA_EXPORT ssize_t pread64(int fd, void* to, size_t size, off_t offset)
    __attribute__((alias("pread")));
// What they become under _FORTIFY_SOURCE. A `size` beyond `room` is the program's end in libc, too.
VERBENA_EXPORT ssize_t __read_chk(int fd, void* to, size_t size, size_t room) {
  if (size > room) std::abort();
  return read(fd, to, size);
}
VERBENA_EXPORT ssize_t __pread_chk(int fd, void* to, size_t size, off_t offset, size_t room) {
  if (size > room) std::abort();
  return pread(fd, to, size, offset);
}
VERBENA_EXPORT ssize_t __pread64_chk(int fd, void* to, size_t size, off_t offset, size_t room)
    __attribute__((alias("__pread_chk")));
