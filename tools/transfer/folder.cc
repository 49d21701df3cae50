#include "tools/transfer/folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <array>
#include <cstdio>
#include <stdexcept>

#include "tools/transfer/names.h"

namespace verbena::transfer {

Folder::Folder(const std::string& path) : path_{path} {
  folder_ = Descriptor{open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!folder_) throw_errno(printable(path));
  if (flock(folder_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) throw_errno(fmt::format("{}: flock", printable(path)));
    throw std::runtime_error{fmt::format(
        "{}: another `verbena receive` uses this folder; use another one, or wait for it",
        printable(path))};
  }
}

Place Folder::place_of(const std::string& path) const {
  std::vector<std::string> parts = components_of(path);
  Place place{Descriptor{openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)},
              std::move(parts.back())};
  if (!place.folder) throw_errno(printable(path_));
  parts.pop_back();
  for (const std::string& part : parts) {
    Descriptor next{
        openat(place.folder.get(), part.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
    if (!next) {
      const int code = errno;
      const bool link = code == ELOOP || code == ENOTDIR;
      throw_errno(fmt::format("{}: \"{}\"{}", printable(path), printable(part),
                              link ? " is a link or a file, and won't be followed" : ""),
                  code);
    }
    place.folder = std::move(next);
  }
  return place;
}

std::optional<struct stat> Folder::status_of(const Place& place) {
  struct stat status {};
  if (fstatat(place.folder.get(), place.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
    return status;
  }
  if (errno == ENOENT) return std::nullopt;
  throw_errno(printable(place.name));
}

int Folder::hidden() {
  if (hidden_) return hidden_.get();
  const std::string name{kHiddenFolder};
  if (mkdirat(folder_.get(), name.c_str(), 0700) != 0 && errno != EEXIST) {
    throw_errno(fmt::format("{}/{}", printable(path_), name));
  }
  hidden_ = Descriptor{
      openat(folder_.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  if (!hidden_) throw_errno(fmt::format("{}/{}", printable(path_), name));
  struct stat status {};
  if (fstat(hidden_.get(), &status) != 0 || status.st_uid != geteuid()) {
    hidden_ = Descriptor{};
    throw std::runtime_error{
        fmt::format("{}/{} is another user's folder; remove it", printable(path_), name)};
  }
  return hidden_.get();
}

void Folder::remove_hidden_if_empty() {
  hidden_ = Descriptor{};
  unlinkat(folder_.get(), std::string{kHiddenFolder}.c_str(), AT_REMOVEDIR);  // or it isn't empty
}

void Folder::move_into_place(const std::string& hidden_name, const Place& place, bool replace) {
  const unsigned flags = replace ? 0 : RENAME_NOREPLACE;
  int status =
      renameat2(hidden(), hidden_name.c_str(), place.folder.get(), place.name.c_str(), flags);
  // Some network file systems know no flags. A file that appears in between is replaced there.
  if (status != 0 && errno == EINVAL && !replace && !status_of(place)) {
    status = renameat(hidden(), hidden_name.c_str(), place.folder.get(), place.name.c_str());
  }
  if (status != 0) throw_errno(fmt::format("{}: rename", printable(place.name)));
}

void set_attributes(int fd, const Entry& entry, const std::string& path) {
  // No set-user-ID or set-group-ID: the files are of another user now.
  if (fchmod(fd, entry.mode & 0777) != 0) throw_errno(fmt::format("{}: chmod", printable(path)));
  const timespec modified{.tv_sec = entry.seconds, .tv_nsec = static_cast<long>(entry.nanoseconds)};
  const std::array times{timespec{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, modified};
  if (futimens(fd, times.data()) != 0) throw_errno(fmt::format("{}: utimes", printable(path)));
}

}  // namespace verbena::transfer
