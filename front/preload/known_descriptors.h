#pragma once

// Descriptors of the program that refer to something of ours. Known by the inode of what they refer
// to, never by their number alone: dup2(), close_range() and reuse go around every hook. Lock-free
// and async-signal-safe: every read() and write() of the program asks.

#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <optional>

#include "front/preload/next.h"

namespace verbena::front {

class KnownDescriptors {
 public:
  /// `type`: what they are, as S_IFSOCK.
  constexpr explicit KnownDescriptors(mode_t type) : type_{type} {}

  /// False: the number is beyond what we can remember.
  [[nodiscard]] bool remember(int fd, ino_t inode) {
    const auto at = static_cast<std::size_t>(fd);
    if (at >= inodes_.size()) return false;
    inodes_[at].store(inode, std::memory_order_release);
    return true;
  }

  void forget(int fd) {
    const auto at = static_cast<std::size_t>(fd);
    if (at >= inodes_.size() || inodes_[at].load(std::memory_order_relaxed) == 0) return;
    inodes_[at].store(0, std::memory_order_release);
  }

  /// What was remembered of `fd`, if it still refers to that.
  [[nodiscard]] std::optional<ino_t> find(int fd) const {
    const auto at = static_cast<std::size_t>(fd);
    if (fd < 0 || at >= inodes_.size()) return std::nullopt;
    const ino_t inode = inodes_[at].load(std::memory_order_acquire);
    if (inode == 0) return std::nullopt;
    const int error = errno;
    struct stat now {};
    const bool same = next::get<"fstat", decltype(fstat)>()(fd, &now) == 0 &&
                      (now.st_mode & S_IFMT) == type_ && now.st_ino == inode;
    errno = error;
    return same ? std::optional{inode} : std::nullopt;
  }

 private:
  static constexpr std::size_t kDescriptors = 1u << 16;

  mode_t type_;
  /// 0: nothing of ours. A number that was given to something else may stay; the inode tells.
  std::array<std::atomic<ino_t>, kDescriptors> inodes_{};
};

}  // namespace verbena::front
