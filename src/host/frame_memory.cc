#include "host/frame_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "host/log.h"

namespace verbena::host {

Result<std::unique_ptr<FrameMemory>> FrameMemory::create(std::size_t bytes) {
  const int fd = memfd_create("verbena-frames", MFD_CLOEXEC);
  if (fd < 0) return Error{errno, "memfd_create for frames"};
  void* at = MAP_FAILED;
  if (ftruncate(fd, static_cast<off_t>(bytes)) == 0) {
    at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  if (at == MAP_FAILED) {
    const int why = errno;
    close(fd);
    return Error{why, fmt::format("{} bytes of memory for frames", bytes)};
  }
  // A forked child must not see (and with it keep, or write into) what we send.
  madvise(at, bytes, MADV_DONTFORK);
  return std::unique_ptr<FrameMemory>{new FrameMemory{fd, {static_cast<std::uint8_t*>(at), bytes}}};
}

FrameMemory::~FrameMemory() {
  munmap(bytes_.data(), bytes_.size());
  if (fd_ >= 0) close(fd_);
}

void FrameMemory::abandon() {
  close(fd_);
  fd_ = -1;
}

bool FrameMemory::inside(const std::uint8_t* p, std::size_t n) const {
  const bool in = p >= bytes_.data() && n <= bytes_.size() &&
                  static_cast<std::size_t>(p - bytes_.data()) <= bytes_.size() - n;
  if (!in) log(LogLevel::error, "a frame of {} bytes lies outside the frame memory", n);
  return in;
}

bool FrameMemory::gather(std::span<const engine::Segment> from, std::span<std::uint8_t> into) {
  if (!inside(into.data(), into.size())) return false;
  auto at = static_cast<off_t>(into.data() - bytes_.data());
  for (const engine::Segment& s : from) {
    const auto n = pwrite(fd_, reinterpret_cast<const void*>(s.address), s.length, at);
    if (n != static_cast<ssize_t>(s.length)) return false;
    at += static_cast<off_t>(s.length);
  }
  return true;
}

bool FrameMemory::scatter(std::span<const std::uint8_t> from,
                          std::span<const engine::Segment> into) {
  if (!inside(from.data(), from.size())) return false;
  auto at = static_cast<off_t>(from.data() - bytes_.data());
  for (const engine::Segment& s : into) {
    const auto n = pread(fd_, reinterpret_cast<void*>(s.address), s.length, at);
    if (n != static_cast<ssize_t>(s.length)) return false;
    at += static_cast<off_t>(s.length);
  }
  return true;
}

}  // namespace verbena::host
