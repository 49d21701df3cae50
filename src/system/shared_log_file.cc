#include "system/shared_log_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "system/file_size_limit.h"
#include "system/kernel_calls.h"
#include "system/monotonic_now.h"
#include "system/system_error.h"

namespace verbena {
namespace {

using namespace std::chrono_literals;

/// `verbena run` locks a file exclusively for the moment in which it empties it, an OutputFile for
/// as long as it is open. Nobody tells when the first is over.
bool share(int fd) {
  constexpr Duration kPatience = 1s;
  constexpr Duration kPause = 1ms;
  const Instant end = monotonic_now() + kPatience;
  while (::flock(fd, LOCK_SH | LOCK_NB) != 0) {
    if ((errno != EWOULDBLOCK && errno != EINTR) || monotonic_now() >= end) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

/// As far as one can know: others may append meanwhile.
bool may_exceed_limit(int fd, std::size_t more) {
  constexpr std::uint64_t kMargin = 1u << 20;
  struct stat status {};
  return ::fstat(fd, &status) == 0 &&
         exceeds_file_size_limit(fd, static_cast<std::uint64_t>(status.st_size) + more + kMargin);
}

/// The `size` bytes that were written last are a piece of a line. Others may have appended behind
/// it. Blanks before a line are no harm to it, and need no room on the disk.
void erase_unfinished(int fd, std::size_t size) {
  const off_t end = ::lseek(fd, 0, SEEK_CUR);
  const off_t begin = end - static_cast<off_t>(size);
  // A descriptor with O_APPEND would append them.
  if (end < 0 || kernel::fcntl(fd, F_SETFL, O_NONBLOCK) != 0) return;
  const std::string blanks(size, ' ');
  [[maybe_unused]] const auto n = kernel::pwrite(fd, blanks.data(), size, begin);
  // Without other writers it is cut off instead.
  struct stat status {};
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0 && ::fstat(fd, &status) == 0 && status.st_size == end) {
    [[maybe_unused]] const int cut = ::ftruncate(fd, begin);
  }
}

}  // namespace

Result<SharedLogFile> SharedLogFile::open(const std::string& path) {
  // O_NONBLOCK: a pipe without a reader is refused, not waited for.
  Fd fd{::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666)};
  if (!fd) return system_error(errno, path, "name a file that can be written");
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || (!S_ISREG(status.st_mode) && !S_ISCHR(status.st_mode))) {
    return Error{EINVAL, path + " is not a regular file; name another file"};
  }
  // /dev/null and the like are everybody's.
  if (S_ISREG(status.st_mode) && !share(fd.get())) {
    return Error{EBUSY, path + ": something else is written to it (a capture?); name another file"};
  }
  return SharedLogFile{std::move(fd), path};
}

Status SharedLogFile::append(std::string_view lines) {
  if (!fd_ || lines.empty()) return Ok{};
  if (may_exceed_limit(fd_.get(), lines.size())) return fail(EFBIG);
  ssize_t n = 0;
  do {
    n = kernel::write(fd_.get(), lines.data(), lines.size());
  } while (n < 0 && errno == EINTR);
  if (n < 0) return fail(errno);
  const std::string_view done = lines.substr(0, static_cast<std::size_t>(n));
  if (done.size() == lines.size()) return Ok{};
  // The rest would come behind lines of others.
  const std::size_t unfinished = done.size() - (done.rfind('\n') + 1);
  if (unfinished > 0) erase_unfinished(fd_.get(), unfinished);
  return fail(ENOSPC);
}

Error SharedLogFile::fail(int code) {
  fd_.reset();
  return system_error(code, "write " + path_);
}

}  // namespace verbena
