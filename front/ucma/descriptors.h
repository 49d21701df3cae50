#pragma once

// Which descriptors of the program are rdma_cm event channels.

#include <sys/types.h>

#include <optional>

namespace verbena::front::ucma {

/// False: the number is beyond what we can remember.
[[nodiscard]] bool remember_descriptor(int fd, ino_t inode);

/// It is about to be closed.
void forget_descriptor(int fd);

/// The inode of the channel that `fd` refers to. nullopt: it is no channel. Async-signal-safe.
[[nodiscard]] std::optional<ino_t> channel_inode(int fd);

}  // namespace verbena::front::ucma
