#include "front/ucma/descriptors.h"

#include "front/preload/known_descriptors.h"

namespace verbena::front::ucma {

namespace {

constinit KnownDescriptors channels{S_IFSOCK};

}  // namespace

bool remember_descriptor(int fd, ino_t inode) { return channels.remember(fd, inode); }

void forget_descriptor(int fd) { channels.forget(fd); }

std::optional<ino_t> channel_inode(int fd) { return channels.find(fd); }

}  // namespace verbena::front::ucma
