#pragma once

// Calls of kernel_calls.h in which a thread of the program may wait for long, and may be cancelled:
// as libc's are, they are cancellation points.

#include <sys/types.h>

#include <cstddef>

namespace verbena::kernel {

[[nodiscard]] ssize_t wait_and_read(int fd, void* into, std::size_t size);
[[nodiscard]] ssize_t wait_and_recv(int fd, void* into, std::size_t size, int flags);
/// Until a signal comes: -1 and EINTR.
int wait_for_signal();

}  // namespace verbena::kernel
