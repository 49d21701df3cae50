#include "system/dma_buf.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <string_view>

#include "system/kernel_calls.h"
#include "system/system_error.h"

namespace verbena {
namespace {

bool is_dma_buf(int descriptor) {
  constexpr std::string_view kName = "/dmabuf:";
  std::array<char, kName.size()> name;
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  return ::readlink(link.c_str(), name.data(), name.size()) == static_cast<ssize_t>(name.size()) &&
         std::string_view{name.data(), name.size()} == kName;
}

}  // namespace

Status check_descriptor(int descriptor) {
  if (kernel::fcntl(descriptor, F_GETFD) >= 0) return Ok{};
  return Error{EBADF, "descriptor " + std::to_string(descriptor) + " isn't open"};
}

Result<DmaBuf> DmaBuf::map(int descriptor, std::uint64_t offset, std::size_t length, bool write) {
  if (auto open = check_descriptor(descriptor); !open) return open.error();
  const std::string who = "descriptor " + std::to_string(descriptor);
  if (!is_dma_buf(descriptor)) return Error{EINVAL, who + " is not a dma-buf"};
  const off_t size = ::lseek(descriptor, 0, SEEK_END);
  if (size >= 0 && (offset > static_cast<std::uint64_t>(size) ||
                    length > static_cast<std::uint64_t>(size) - offset)) {
    return Error{EINVAL, std::to_string(length) + " bytes from " + std::to_string(offset) +
                             ": the dma-buf of " + who + " has " + std::to_string(size)};
  }
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t in_page = offset % page;
  void* const base = ::mmap(nullptr, length + in_page, write ? PROT_READ | PROT_WRITE : PROT_READ,
                            MAP_SHARED, descriptor, static_cast<off_t>(offset - in_page));
  if (base == MAP_FAILED) {
    if (errno == EACCES || errno == ENOMEM) return system_error(errno, "mmap of a dma-buf");
    return Error{EOPNOTSUPP,
                 "the driver behind the dma-buf of " + who + " doesn't let it be mapped"};
  }
  return DmaBuf{base, length + in_page, reinterpret_cast<std::uintptr_t>(base) + in_page};
}

DmaBuf::~DmaBuf() {
  if (base_ != nullptr) ::munmap(base_, mapped_);
}

}  // namespace verbena
