#pragma once

// System calls that copy from and to the program's memory. A program that was built with a
// sanitizer has wrappers of its own around libc's functions: ThreadSanitizer would take what the
// NIC's thread copies for an unsynchronised write, because it doesn't see how our library, built
// without it, tells the program. What a NIC does with memory no sanitizer sees; so the calls are
// made without libc. Our own builds with ThreadSanitizer see both sides, and keep the wrappers.

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstddef>

namespace verbena::host::unseen {

#ifdef __SANITIZE_THREAD__

using ::pread;
using ::preadv;
using ::pwrite;
using ::pwritev;

#else

static_assert(sizeof(long) == 8 && sizeof(off_t) == 8);  // an offset is one argument

inline ssize_t pread(int fd, void* into, std::size_t size, off_t at) {
  return syscall(SYS_pread64, fd, into, size, at);
}
inline ssize_t pwrite(int fd, const void* from, std::size_t size, off_t at) {
  return syscall(SYS_pwrite64, fd, from, size, at);
}
inline ssize_t preadv(int fd, const iovec* pieces, int count, off_t at) {
  return syscall(SYS_preadv, fd, pieces, long{count}, at, 0L);
}
inline ssize_t pwritev(int fd, const iovec* pieces, int count, off_t at) {
  return syscall(SYS_pwritev, fd, pieces, long{count}, at, 0L);
}

#endif

}  // namespace verbena::host::unseen
