// The functions of paths that we stand before: programs look for a device below /sys and /dev
// before they use it, and find there what front/sysfs has. Everything else passes through.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "front/preload/appearance.h"
#include "front/preload/next.h"
#include "front/sysfs/open_files.h"
#include "front/sysfs/tree.h"
#include "front/ucma/character_device.h"
#include "front/ucma/descriptors.h"
#include "front/verbs/export.h"
#include "front/verbs/guarded.h"

VERBENA_EXPORT int __open_2(const char* path, int flags);
VERBENA_EXPORT int __openat_2(int folder, const char* path, int flags);
VERBENA_EXPORT int __xstat(int version, const char* path, struct stat* s);
VERBENA_EXPORT int __lxstat(int version, const char* path, struct stat* s);
VERBENA_EXPORT char* __realpath_chk(const char* path, char* resolved, size_t room);
VERBENA_EXPORT ssize_t __readlink_chk(const char* path, char* to, size_t size, size_t room);
VERBENA_EXPORT ssize_t __readlinkat_chk(int folder, const char* path, char* to, size_t size,
                                        size_t room);

using namespace verbena;
using namespace verbena::front;
using sysfs::Follow;
using sysfs::Node;

namespace {

// Then the functions with and without "64" are the same.
static_assert(sizeof(struct stat) == sizeof(struct stat64) && sizeof(off_t) == 8);

/// Calls `ours` with a node of ours that is there, else `kernels` with the path to ask the kernel
/// for. A node that isn't there is ENOENT.
template <typename R, typename Kernels, typename Ours>
R either(const char* path, Follow follow, R failure, Kernels kernels, Ours ours) {
  if (!sysfs::may_be_ours(path)) return kernels(path);
  const NoCancellation shield;
  try {
    const Node node = sysfs::find(path, follow);
    if (node.kind == Node::Kind::kernels) return kernels(node.path.c_str());
    if (node.kind != Node::Kind::missing) return ours(node);
    errno = ENOENT;
  } catch (...) {
    report_exception(path);
  }
  return failure;
}

template <typename R>
R fail(R failure, int code) {
  errno = code;
  return failure;
}

/// Whether open() has a third argument.
bool has_mode(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

int open_node(const Node& node, int flags) {
  switch (node.kind) {
    case Node::Kind::file:
      return sysfs::open_file(node, flags);
    case Node::Kind::character_device:
      if (node.device == Node::Device::rdma_cm) return ucma::open_device(flags);
      return fail(-1, ENODEV);  // its commands are the private matter of libibverbs
    case Node::Kind::folder:
    case Node::Kind::link:
    case Node::Kind::kernels:
    case Node::Kind::missing:
      break;
  }
  // The kernel's own, if it has one; opendir() shows both.
  return next::get<"open", decltype(open)>()(node.path.c_str(), flags, 0);
}

int open_path(const char* path, int flags, mode_t mode) {
  return either(
      path, Follow::yes, -1,
      [&](const char* p) { return next::get<"open", decltype(open)>()(p, flags, mode); },
      [&](const Node& node) { return open_node(node, flags); });
}

/// The call asks for the descriptor `folder` itself, which is an event channel of ours.
bool is_channel(int folder, const char* path, int flags) {
  return (flags & AT_EMPTY_PATH) != 0 && path != nullptr && *path == 0 &&
         ucma::channel_inode(folder).has_value();
}

int describe(struct statx* s, const Appearance& looks) {
  *s = {};
  s->stx_mask = STATX_TYPE | STATX_MODE | STATX_NLINK | STATX_SIZE;
  s->stx_nlink = 1;
  s->stx_mode = static_cast<std::uint16_t>(looks.mode);
  s->stx_size = looks.size;
  s->stx_rdev_major = looks.major_number;
  s->stx_rdev_minor = looks.minor_number;
  return 0;
}

template <typename Stat>
int describe(Stat* s, const Node& node) {
  *s = {};
  s->st_nlink = 1;
  look_like(*s, appearance_of(node));
  return 0;
}

int check_access(const Node& node, int mode) {
  const mode_t allowed = appearance_of(node).mode;
  if ((mode & W_OK) != 0 && (allowed & 0002) == 0) return fail(-1, EACCES);
  if ((mode & X_OK) != 0 && (allowed & 0001) == 0) return fail(-1, EACCES);
  return 0;
}

ssize_t copy_link(const Node& node, char* to, std::size_t size) {
  if (node.kind != Node::Kind::link) return fail(ssize_t{-1}, EINVAL);
  const std::size_t n = std::min(size, node.text.size());
  std::copy_n(node.text.data(), n, to);
  return static_cast<ssize_t>(n);
}

char* copy_path(const Node& node, char* to) {
  if (node.path.size() >= PATH_MAX) return fail(static_cast<char*>(nullptr), ENAMETOOLONG);
  return to != nullptr ? std::strcpy(to, node.path.c_str()) : strdup(node.path.c_str());
}

/// Before the program can be in a signal handler.
[[gnu::constructor]] void look_up_paths() {
  static_cast<void>(next::get<"open", decltype(open)>());
  static_cast<void>(next::get<"openat", decltype(openat)>());
  static_cast<void>(next::get<"stat", decltype(stat)>());
  static_cast<void>(next::get<"lstat", decltype(lstat)>());
  static_cast<void>(next::get<"fstatat", decltype(fstatat)>());
  static_cast<void>(next::get<"access", decltype(access)>());
  static_cast<void>(next::get<"faccessat", decltype(faccessat)>());
  static_cast<void>(next::get<"readlink", decltype(readlink)>());
  static_cast<void>(next::get<"readlinkat", decltype(readlinkat)>());
}

}  // namespace

// ---- opening

VERBENA_EXPORT int open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if (has_mode(flags)) {
    va_list more;
    va_start(more, flags);
    mode = va_arg(more, mode_t);
    va_end(more);
  }
  return open_path(path, flags, mode);
}
VERBENA_EXPORT int open64(const char* path, int flags, ...) __attribute__((alias("open")));

VERBENA_EXPORT int openat(int folder, const char* path, int flags, ...) {
  mode_t mode = 0;
  if (has_mode(flags)) {
    va_list more;
    va_start(more, flags);
    mode = va_arg(more, mode_t);
    va_end(more);
  }
  if (sysfs::may_be_ours(path)) return open_path(path, flags, mode);
  return next::get<"openat", decltype(openat)>()(folder, path, flags, mode);
}
VERBENA_EXPORT int openat64(int folder, const char* path, int flags, ...)
    __attribute__((alias("openat")));

// What open() becomes under _FORTIFY_SOURCE, with flags that ask for no mode.
VERBENA_EXPORT int __open_2(const char* path, int flags) { return open_path(path, flags, 0); }
VERBENA_EXPORT int __open64_2(const char* path, int flags) __attribute__((alias("__open_2")));
VERBENA_EXPORT int __openat_2(int folder, const char* path, int flags) {
  return openat(folder, path, flags);
}
VERBENA_EXPORT int __openat64_2(int folder, const char* path, int flags)
    __attribute__((alias("__openat_2")));

VERBENA_EXPORT FILE* fopen(const char* path, const char* mode) {
  return either(
      path, Follow::yes, static_cast<FILE*>(nullptr),
      [&](const char* p) { return next::get<"fopen", decltype(fopen)>()(p, mode); },
      [&](const Node& node) -> FILE* {
        if (mode[0] != 'r' || std::strchr(mode, '+') != nullptr) {
          return fail(static_cast<FILE*>(nullptr), EACCES);
        }
        const int fd = open_node(node, std::strchr(mode, 'e') != nullptr ? O_CLOEXEC : 0);
        return fd >= 0 ? fdopen(fd, mode) : nullptr;
      });
}
VERBENA_EXPORT FILE* fopen64(const char* path, const char* mode) __attribute__((alias("fopen")));

// ---- looking

VERBENA_EXPORT int stat(const char* path, struct stat* s) {
  return either(
      path, Follow::yes, -1,
      [&](const char* p) { return next::get<"stat", decltype(stat)>()(p, s); },
      [&](const Node& node) { return describe(s, node); });
}
VERBENA_EXPORT int stat64(const char* path, struct stat64* s) {
  return stat(path, reinterpret_cast<struct stat*>(s));
}

VERBENA_EXPORT int lstat(const char* path, struct stat* s) {
  return either(
      path, Follow::no, -1,
      [&](const char* p) { return next::get<"lstat", decltype(lstat)>()(p, s); },
      [&](const Node& node) { return describe(s, node); });
}
VERBENA_EXPORT int lstat64(const char* path, struct stat64* s) {
  return lstat(path, reinterpret_cast<struct stat*>(s));
}

VERBENA_EXPORT int fstatat(int folder, const char* path, struct stat* s, int flags) {
  if (is_channel(folder, path, flags)) return fstat(folder, s);
  return either(
      path, (flags & AT_SYMLINK_NOFOLLOW) != 0 ? Follow::no : Follow::yes, -1,
      [&](const char* p) { return next::get<"fstatat", decltype(fstatat)>()(folder, p, s, flags); },
      [&](const Node& node) { return describe(s, node); });
}
VERBENA_EXPORT int fstatat64(int folder, const char* path, struct stat64* s, int flags) {
  return fstatat(folder, path, reinterpret_cast<struct stat*>(s), flags);
}

// What stat() is in programs that were built with a glibc before 2.33. `version` is always 1.
VERBENA_EXPORT int __xstat(int version, const char* path, struct stat* s) {
  static_cast<void>(version);
  return stat(path, s);
}
VERBENA_EXPORT int __xstat64(int version, const char* path, struct stat* s)
    __attribute__((alias("__xstat")));
VERBENA_EXPORT int __lxstat(int version, const char* path, struct stat* s) {
  static_cast<void>(version);
  return lstat(path, s);
}
VERBENA_EXPORT int __lxstat64(int version, const char* path, struct stat* s)
    __attribute__((alias("__lxstat")));

VERBENA_EXPORT int statx(int folder, const char* path, int flags, unsigned mask,
                         struct statx* s) noexcept {
  if (is_channel(folder, path, flags)) return describe(s, cm_device());
  return either(
      path, (flags & AT_SYMLINK_NOFOLLOW) != 0 ? Follow::no : Follow::yes, -1,
      [&](const char* p) {
        return next::get<"statx", decltype(statx)>()(folder, p, flags, mask, s);
      },
      [&](const Node& node) { return describe(s, appearance_of(node)); });
}

VERBENA_EXPORT int access(const char* path, int mode) {
  return either(
      path, Follow::yes, -1,
      [&](const char* p) { return next::get<"access", decltype(access)>()(p, mode); },
      [&](const Node& node) { return check_access(node, mode); });
}

VERBENA_EXPORT int faccessat(int folder, const char* path, int mode, int flags) {
  return either(
      path, Follow::yes, -1,
      [&](const char* p) {
        return next::get<"faccessat", decltype(faccessat)>()(folder, p, mode, flags);
      },
      [&](const Node& node) { return check_access(node, mode); });
}

// ---- following

VERBENA_EXPORT ssize_t readlink(const char* path, char* to, size_t size) {
  return either(
      path, Follow::no, ssize_t{-1},
      [&](const char* p) { return next::get<"readlink", decltype(readlink)>()(p, to, size); },
      [&](const Node& node) { return copy_link(node, to, size); });
}

VERBENA_EXPORT ssize_t readlinkat(int folder, const char* path, char* to, size_t size) {
  return either(
      path, Follow::no, ssize_t{-1},
      [&](const char* p) {
        return next::get<"readlinkat", decltype(readlinkat)>()(folder, p, to, size);
      },
      [&](const Node& node) { return copy_link(node, to, size); });
}

// What they become under _FORTIFY_SOURCE. A `size` beyond `room` is the program's end in libc, too.
VERBENA_EXPORT ssize_t __readlink_chk(const char* path, char* to, size_t size, size_t room) {
  if (size > room) std::abort();
  return readlink(path, to, size);
}
VERBENA_EXPORT ssize_t __readlinkat_chk(int folder, const char* path, char* to, size_t size,
                                        size_t room) {
  if (size > room) std::abort();
  return readlinkat(folder, path, to, size);
}

VERBENA_EXPORT char* realpath(const char* path, char* resolved) {
  return either(
      path, Follow::yes, static_cast<char*>(nullptr),
      [&](const char* p) { return next::get<"realpath", decltype(realpath)>()(p, resolved); },
      [&](const Node& node) { return copy_path(node, resolved); });
}
VERBENA_EXPORT char* __realpath_chk(const char* path, char* resolved, size_t room) {
  if (room < PATH_MAX) std::abort();
  return realpath(path, resolved);
}
VERBENA_EXPORT char* canonicalize_file_name(const char* path) { return realpath(path, nullptr); }
