#pragma once

// /dev/infiniband/rdma_cm as a program sees it.

#include <sys/types.h>

#include <cstddef>

namespace verbena::front::ucma {

/// open(2): a new event channel, or -1 and errno.
int open_device(int flags) noexcept;

/// write(2) of one command to the channel of that inode: its size, or -1 and errno. Not noexcept:
/// a thread that waits for an event may be cancelled.
ssize_t write_device(int fd, ino_t channel, const void* bytes, std::size_t size);

/// A descriptor of that channel was closed: maybe the last one.
void channel_closed(ino_t channel) noexcept;

}  // namespace verbena::front::ucma
