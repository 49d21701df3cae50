#pragma once

#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdint>

namespace verbena {

/// Beyond the limit of file sizes (RLIMIT_FSIZE), the kernel sends SIGXFSZ, which ends the program.
[[nodiscard]] inline bool exceeds_file_size_limit(int fd, std::uint64_t size) {
  rlimit limit{};
  struct stat status {};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
         size > limit.rlim_cur && ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

}  // namespace verbena
