#include "front/sysfs/open_files.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <string>

#include "front/preload/known_descriptors.h"
#include "front/verbs/guarded.h"
#include "host/devices/kernel_view.h"
#include "system/kernel_calls.h"

namespace verbena::front::sysfs {

namespace {

constinit KnownDescriptors files{S_IFREG};

bool fill(int fd, const std::string& text) {
  return pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
         ftruncate(fd, static_cast<off_t>(text.size())) == 0;
}

/// The name of a file in memory is its path in the tree: what it shows is looked up by it again.
constexpr std::string_view kNameInProc = "/memfd:";

std::optional<std::string> path_of(int fd) {
  const host::KernelView real;
  std::array<char, 512> link{};
  const std::string name = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t size = readlink(name.c_str(), link.data(), link.size());
  if (size < 0) return std::nullopt;
  std::string_view path{link.data(), static_cast<std::size_t>(size)};
  if (!path.starts_with(kNameInProc)) return std::nullopt;
  path.remove_prefix(kNameInProc.size());
  return std::string{path.substr(0, path.rfind(" (deleted)"))};
}

}  // namespace

int open_file(const Node& node, int flags) {
  if ((flags & O_ACCMODE) != O_RDONLY) {
    errno = EACCES;
    return -1;
  }
  // A descriptor that every read() of is refused with EINVAL.
  if (!node.readable) return kernel::epoll_create1((flags & O_CLOEXEC) != 0 ? EPOLL_CLOEXEC : 0);
  const int fd = memfd_create(node.path.c_str(), (flags & O_CLOEXEC) != 0 ? MFD_CLOEXEC : 0);
  if (fd < 0) return fd;
  struct stat s {};
  if (!fill(fd, node.text) || fstat(fd, &s) != 0) {
    const int error = errno;
    kernel::close(fd);
    errno = error;
    return -1;
  }
  // A number beyond the table: it keeps what it shows now.
  static_cast<void>(files.remember(fd, s.st_ino));
  return fd;
}

void file_copied(int fd, int copy) {
  if (const auto inode = files.find(fd)) static_cast<void>(files.remember(copy, *inode));
}

void file_closed(int fd) { files.forget(fd); }

void refresh_at_start(int fd) {
  if (files.find(fd) && lseek(fd, 0, SEEK_CUR) == 0) refresh(fd);
}

void refresh(int fd) {
  if (!files.find(fd)) return;
  const int error = errno;
  const NoCancellation shield;
  try {
    if (const auto path = path_of(fd)) {
      const Node now = find(*path, Follow::yes);
      // A device that is gone leaves its last words.
      if (now.kind == Node::Kind::file && now.readable) static_cast<void>(fill(fd, now.text));
    }
  } catch (...) {
    report_exception("read");
  }
  errno = error;
}

}  // namespace verbena::front::sysfs
