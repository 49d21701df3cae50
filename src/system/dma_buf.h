#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/result.h"

namespace verbena {

/// Bytes of a dma-buf, mapped. Unmapped with it.
class DmaBuf {
 public:
  /// EBADF: no descriptor. EINVAL: not a dma-buf, or beyond its end. EOPNOTSUPP: its driver doesn't
  /// let it be mapped. EACCES: not for writing.
  [[nodiscard]] static Result<DmaBuf> map(int descriptor, std::uint64_t offset, std::size_t length,
                                          bool write);
  ~DmaBuf();
  DmaBuf(DmaBuf&& other) noexcept
      : base_{std::exchange(other.base_, nullptr)}, mapped_{other.mapped_}, bytes_{other.bytes_} {}
  DmaBuf& operator=(DmaBuf&&) = delete;

  [[nodiscard]] std::uint64_t address() const { return bytes_; }

 private:
  DmaBuf(void* base, std::size_t mapped, std::uint64_t bytes)
      : base_{base}, mapped_{mapped}, bytes_{bytes} {}

  void* base_;
  std::size_t mapped_;
  std::uint64_t bytes_;
};

/// EBADF: it isn't open.
[[nodiscard]] Status check_descriptor(int descriptor);

}  // namespace verbena
