// The libc functions that we stand before, for the sake of /dev/infiniband/rdma_cm: librdmacm
// opens it, asks whether it is a character device, and writes commands to it. Everything else
// passes through.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdarg>
#include <cstring>

#include "front/preload/next.h"
#include "front/ucma/character_device.h"
#include "front/ucma/descriptors.h"
#include "front/verbs/export.h"

VERBENA_EXPORT int __open_2(const char* path, int flags);

using namespace verbena::front;

namespace {

// Then the functions with and without "64" are the same.
static_assert(sizeof(struct stat) == sizeof(struct stat64) && sizeof(off_t) == 8);

bool is_cm_device(const char* path) {
  return path != nullptr && std::strcmp(path, "/dev/infiniband/rdma_cm") == 0;
}

/// Whether open() has a third argument.
bool has_mode(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

/// What the kernel's looks like: a misc device that everybody may use.
template <typename Stat>
void describe(Stat& s) {
  s.st_mode = S_IFCHR | 0666;
  s.st_rdev = makedev(10, 255);
  s.st_size = 0;
}

template <typename Stat>
int describe_path(Stat* s) {
  *s = {};
  s->st_nlink = 1;
  describe(*s);
  return 0;
}

template <typename Stat>
int correct(int fd, int result, Stat* s) {
  if (result == 0 && S_ISSOCK(s->st_mode) && ucma::channel_inode(fd)) describe(*s);
  return result;
}

/// `copy` refers to what `fd` refers to.
int copied(int fd, int copy) {
  if (copy < 0) return copy;
  if (const auto channel = ucma::channel_inode(fd)) {
    static_cast<void>(ucma::remember_descriptor(copy, *channel));
  }
  return copy;
}

/// Before the program can be in a signal handler.
[[gnu::constructor]] void look_up() {
  static_cast<void>(next::get<"open", decltype(open)>());
  static_cast<void>(next::get<"openat", decltype(openat)>());
  static_cast<void>(next::get<"__open_2", decltype(__open_2)>());
  static_cast<void>(next::get<"fstat", decltype(fstat)>());
  static_cast<void>(next::get<"fstat64", decltype(fstat64)>());
  static_cast<void>(next::get<"stat", decltype(stat)>());
  static_cast<void>(next::get<"stat64", decltype(stat64)>());
  static_cast<void>(next::get<"access", decltype(access)>());
  static_cast<void>(next::get<"write", decltype(write)>());
  static_cast<void>(next::get<"close", decltype(close)>());
  static_cast<void>(next::get<"dup", decltype(dup)>());
  static_cast<void>(next::get<"dup2", decltype(dup2)>());
  static_cast<void>(next::get<"dup3", decltype(dup3)>());
  static_cast<void>(next::get<"fcntl", decltype(fcntl)>());
}

}  // namespace

VERBENA_EXPORT int open(const char* path, int flags, ...) {
  if (is_cm_device(path)) return ucma::open_device(flags);
  mode_t mode = 0;
  if (has_mode(flags)) {
    va_list more;
    va_start(more, flags);
    mode = va_arg(more, mode_t);
    va_end(more);
  }
  return next::get<"open", decltype(open)>()(path, flags, mode);
}
VERBENA_EXPORT int open64(const char* path, int flags, ...) __attribute__((alias("open")));

VERBENA_EXPORT int openat(int folder, const char* path, int flags, ...) {
  if (is_cm_device(path)) return ucma::open_device(flags);
  mode_t mode = 0;
  if (has_mode(flags)) {
    va_list more;
    va_start(more, flags);
    mode = va_arg(more, mode_t);
    va_end(more);
  }
  return next::get<"openat", decltype(openat)>()(folder, path, flags, mode);
}
VERBENA_EXPORT int openat64(int folder, const char* path, int flags, ...)
    __attribute__((alias("openat")));

// What open() becomes under _FORTIFY_SOURCE.
VERBENA_EXPORT int __open_2(const char* path, int flags) {
  if (is_cm_device(path)) return ucma::open_device(flags);
  return next::get<"__open_2", decltype(__open_2)>()(path, flags);
}
VERBENA_EXPORT int __open64_2(const char* path, int flags) __attribute__((alias("__open_2")));

VERBENA_EXPORT int fstat(int fd, struct stat* s) {
  return correct(fd, next::get<"fstat", decltype(fstat)>()(fd, s), s);
}
VERBENA_EXPORT int fstat64(int fd, struct stat64* s) {
  return correct(fd, next::get<"fstat64", decltype(fstat64)>()(fd, s), s);
}

VERBENA_EXPORT int stat(const char* path, struct stat* s) {
  return is_cm_device(path) ? describe_path(s) : next::get<"stat", decltype(stat)>()(path, s);
}
VERBENA_EXPORT int stat64(const char* path, struct stat64* s) {
  return is_cm_device(path) ? describe_path(s) : next::get<"stat64", decltype(stat64)>()(path, s);
}

VERBENA_EXPORT int access(const char* path, int mode) {
  if (is_cm_device(path) && (mode & X_OK) == 0) return 0;
  return next::get<"access", decltype(access)>()(path, mode);
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
