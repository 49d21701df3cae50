#pragma once

// /dev/infiniband/rdma_cm as a program sees it.

#include <sys/types.h>

#include <cstddef>

namespace verbena::front::ucma {

/// open(2): a new event channel, or -1 and errno.
int open_device(int flags) noexcept;

/// write(2) of one command to the channel of that inode: its size, or -1 and errno.
ssize_t write_device(int fd, ino_t channel, const void* bytes, std::size_t size) noexcept;

/// A descriptor of a channel was closed: maybe the last one.
void channel_closed() noexcept;

}  // namespace verbena::front::ucma
