#include "system/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "system/file_size_limit.h"
#include "system/kernel_calls.h"
#include "system/system_error.h"

namespace verbena {
namespace {

enum class Claim : std::uint8_t { ours, taken, unsuitable };

/// A file is free when it is empty and nobody holds its lock, which ends with the process.
Claim claim(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return Claim::unsuitable;
  if (S_ISCHR(status.st_mode)) return Claim::ours;  // /dev/null and the like are everybody's
  if (!S_ISREG(status.st_mode)) return Claim::unsuitable;
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) return Claim::taken;
  return ::fstat(fd, &status) == 0 && status.st_size == 0 ? Claim::ours : Claim::taken;
}

Fd open_for_writing(const std::string& path) {
  // O_NONBLOCK: a pipe without a reader is refused, not waited for.
  return Fd{::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666)};
}

Error not_regular(const std::string& path) {
  return {EINVAL, path + " is not a regular file; name another file"};
}

}  // namespace

std::string with_process_id(std::string_view path, std::uint32_t pid) {
  const auto slash = path.rfind('/');
  const auto name = slash == std::string_view::npos ? 0 : slash + 1;
  auto dot = path.rfind('.');
  if (dot == std::string_view::npos || dot <= name) dot = path.size();
  std::string result{path.substr(0, dot)};
  return result.append(".").append(std::to_string(pid)).append(path.substr(dot));
}

Result<OutputFile> OutputFile::open(const std::string& path) {
  const std::string second = with_process_id(path, static_cast<std::uint32_t>(::getpid()));
  for (const std::string& name : {path, second}) {
    Fd fd = open_for_writing(name);
    if (!fd) {
      return system_error(errno, name, "name a file that can be written");
    }
    switch (claim(fd.get())) {
      case Claim::ours:
        return OutputFile{std::move(fd), name};
      case Claim::unsuitable:
        return not_regular(name);
      case Claim::taken:
        break;
    }
  }
  return Error{EEXIST, path + " and " + second + " are there already; remove them"};
}

Status OutputFile::append(std::string_view records) {
  if (fd_ && exceeds_file_size_limit(fd_.get(), size_ + records.size())) {
    fd_.reset();
    return system_error(EFBIG, "write " + path_);
  }
  std::size_t done = 0;
  while (fd_ && done < records.size()) {
    const auto n = kernel::write(fd_.get(), records.data() + done, records.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int why = errno;
      // Best effort: on a full disk this is what still works.
      [[maybe_unused]] const int cut = ::ftruncate(fd_.get(), static_cast<off_t>(size_));
      fd_.reset();
      return system_error(why, "write " + path_);
    }
    done += static_cast<std::size_t>(n);
  }
  size_ += done;
  return Ok{};
}

}  // namespace verbena
