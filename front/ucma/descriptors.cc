#include "front/ucma/descriptors.h"

#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>

#include "front/preload/next.h"

namespace verbena::front::ucma {

namespace {

constexpr std::size_t kDescriptors = 1u << 16;

/// 0: no channel. A channel's number that was given to something else may stay; the inode tells.
std::array<std::atomic<ino_t>, kDescriptors> inodes;

}  // namespace

bool remember_descriptor(int fd, ino_t inode) {
  const auto at = static_cast<std::size_t>(fd);
  if (at >= inodes.size()) return false;
  inodes[at].store(inode, std::memory_order_release);
  return true;
}

void forget_descriptor(int fd) { static_cast<void>(remember_descriptor(fd, 0)); }

std::optional<ino_t> channel_inode(int fd) {
  const auto at = static_cast<std::size_t>(fd);
  if (fd < 0 || at >= inodes.size()) return std::nullopt;
  const ino_t inode = inodes[at].load(std::memory_order_acquire);
  if (inode == 0) return std::nullopt;
  const int error = errno;
  struct stat now {};
  const bool same = next::get<"fstat", decltype(fstat)>()(fd, &now) == 0 && S_ISSOCK(now.st_mode) &&
                    now.st_ino == inode;
  errno = error;
  return same ? std::optional{inode} : std::nullopt;
}

}  // namespace verbena::front::ucma
