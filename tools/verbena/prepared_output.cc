#include "tools/verbena/prepared_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace verbena::tool {

PreparedOutput prepare_output(const std::string& path, EarlierContent content) {
  PreparedOutput file{std::filesystem::absolute(path).string(), ""};
  const int fd = open(file.path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
  if (fd < 0) {
    file.problem =
        fmt::format("{}: {}; name a file that can be written", path, std::strerror(errno));
    return file;
  }
  struct stat status {};
  fstat(fd, &status);
  // A process that writes to the file holds its lock; the writers of a trace share one.
  if (content == EarlierContent::discarded && S_ISREG(status.st_mode) &&
      flock(fd, LOCK_EX | LOCK_NB) == 0 && ftruncate(fd, 0) != 0) {
    file.problem = fmt::format("{}: ftruncate: {}", path, std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode) && !S_ISCHR(status.st_mode)) {
    file.problem = fmt::format("{} is not a regular file; name another file", path);
  }
  close(fd);
  return file;
}

}  // namespace verbena::tool
