#include "wire/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "system/frame_mappings.h"
#include "system/kernel_calls.h"
#include "system/system_error.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace verbena::wire::shm {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

std::uint8_t* map_bytes(const Fd& descriptor, int protection) {
  void* const at = ::mmap(nullptr, Segment::kBytes, protection, MAP_SHARED, descriptor.get(), 0);
  if (at == MAP_FAILED) return nullptr;
  // Where the child would keep the mapping, it is no use to the parent either.
  if (::madvise(at, Segment::kBytes, MADV_DONTFORK) != 0) {
    const int why = errno;
    ::munmap(at, Segment::kBytes);
    errno = why;
    return nullptr;
  }
  auto* const base = static_cast<std::uint8_t*>(at);
  note_frame_mapping({base, Segment::kBytes, (protection & PROT_WRITE) != 0});
  return base;
}

}  // namespace

Segment::~Segment() {
  if (base_ == nullptr) return;
  forget_frame_mapping(base_);
  ::munmap(base_, kBytes);
}

Segment::Segment(Segment&& other) noexcept : base_{std::exchange(other.base_, nullptr)} {}

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(base_, other.base_);
  return *this;
}

Result<Segment::Made> Segment::create(std::size_t ring_bytes) {
  Fd memfd{::memfd_create("verbena-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (!memfd) return system_error(errno, "memfd_create for a ring");
  if (::ftruncate(memfd.get(), kBytes) != 0) return system_error(errno, "sizing a ring");
  // All that the reader will look at is there: no access to it can fail for want of memory.
  if (const int why =
          ::posix_fallocate(memfd.get(), 0, static_cast<off_t>(kPageBytes + ring_bytes))) {
    return system_error(why, "memory for a ring");
  }
  Segment segment{map_bytes(memfd, PROT_READ | PROT_WRITE)};
  if (!segment) return system_error(errno, "mmap of a ring");
  if (kernel::fcntl(memfd.get(), F_ADD_SEALS, kSeals) != 0) {
    return system_error(errno, "sealing a ring", "Linux has the seals since 5.1");
  }
  return Made{std::move(segment), std::move(memfd)};
}

Result<Segment> Segment::map(const Fd& descriptor) {
  struct stat status {};
  const int seals = kernel::fcntl(descriptor.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || ::fstat(descriptor.get(), &status) != 0 ||
      status.st_size != static_cast<off_t>(kBytes)) {
    return Error{EPROTO, "a ring of another process isn't sealed, or of another size"};
  }
  Segment segment{map_bytes(descriptor, PROT_READ)};
  if (!segment) return system_error(errno, "mmap of another process' ring");
  return segment;
}

bool Segment::allocate(std::size_t ring_bytes) const {
  return ::madvise(base_, kPageBytes + ring_bytes, MADV_POPULATE_WRITE) == 0;
}

}  // namespace verbena::wire::shm
