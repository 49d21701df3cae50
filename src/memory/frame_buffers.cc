#include "memory/frame_buffers.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "system/frame_mappings.h"
#include "system/kernel_calls.h"

namespace verbena::memory {

Result<std::unique_ptr<FrameBuffers>> FrameBuffers::create(std::size_t bytes) {
  const std::size_t whole = bytes + kScratch;
  // Beyond this limit the kernel raises SIGXFSZ, for a memfd too.
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < whole) {
    return Error{EFBIG, fmt::format("the limit on file sizes (ulimit -f) is {} bytes, and frames "
                                    "need {}: raise it",
                                    limit.rlim_cur, whole)};
  }
  const int fd = memfd_create("verbena-frames", MFD_CLOEXEC);
  if (fd < 0) return Error{errno, fmt::format("memfd_create: {}", std::strerror(errno))};
  void* at = MAP_FAILED;
  if (ftruncate(fd, static_cast<off_t>(whole)) == 0) {
    at = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  if (at == MAP_FAILED) {
    const int why = errno;
    kernel::close(fd);
    return Error{why, fmt::format("{} bytes of memory for frames: {}", bytes, std::strerror(why))};
  }
  // A forked child must not see (and with it keep, or write into) what we send.
  madvise(at, whole, MADV_DONTFORK);
  note_frame_mapping({static_cast<std::uint8_t*>(at), whole, true});
  return std::unique_ptr<FrameBuffers>{
      new FrameBuffers{fd, {static_cast<std::uint8_t*>(at), bytes}}};
}

FrameBuffers::~FrameBuffers() {
  forget_frame_mapping(bytes_.data());
  munmap(bytes_.data(), bytes_.size() + kScratch);
  if (fd_ >= 0) kernel::close(fd_);
}

void FrameBuffers::abandon() {
  kernel::close(fd_);
  fd_ = -1;
}

}  // namespace verbena::memory
