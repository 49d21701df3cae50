#pragma once

// Where a file lands: under its final name only when all of it is there and right.

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>

#include "labs/common/lab.h"

/// A name that the peer chose may not lead anywhere else, nor hide.
[[nodiscard]] inline bool is_plain_name(const std::string& name) {
  return !name.empty() && name.size() <= 200 && name.front() != '.' &&
         name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
}

/// Writes beside the final name, then renames: a reader sees the old file or the new one.
inline void land(const std::filesystem::path& folder, const std::string& name,
                 std::span<const std::byte> bytes) {
  const std::filesystem::path part = folder / fmt::format(".{}.{}.part", name, getpid());
  const int fd = open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  lab::check(fd >= 0, "{}: {}", part.string(), std::strerror(errno));
  int failure = 0;
  while (!bytes.empty() && failure == 0) {
    const ssize_t count = write(fd, bytes.data(), bytes.size());
    if (count >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      failure = errno;
    }
  }
  if (failure == 0 && fsync(fd) != 0) failure = errno;
  if (close(fd) != 0 && failure == 0) failure = errno;
  if (failure == 0 && rename(part.c_str(), (folder / name).c_str()) != 0) failure = errno;
  if (failure != 0) unlink(part.c_str());
  lab::check(failure == 0, "{}: {}", part.string(), std::strerror(failure));
}
