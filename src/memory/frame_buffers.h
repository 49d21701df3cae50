#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/result.h"

namespace verbena::memory {

/// The memory that frames lie in: a mapped memfd, so that the kernel can copy between a frame and
/// the program's memory. See docs/decisions/004-safe-copies.md.
class FrameBuffers {
 public:
  static Result<std::unique_ptr<FrameBuffers>> create(std::size_t bytes);
  ~FrameBuffers();
  FrameBuffers(const FrameBuffers&) = delete;
  FrameBuffers& operator=(const FrameBuffers&) = delete;

  [[nodiscard]] std::span<std::uint8_t> bytes() const { return bytes_; }
  /// A little more of the same memory, for bytes that lie in no frame.
  [[nodiscard]] std::span<std::uint8_t> scratch() const {
    return {bytes_.data() + bytes_.size(), kScratch};
  }

  /// These bytes lie in bytes() or scratch().
  [[nodiscard]] bool hold(std::span<const std::uint8_t> piece) const {
    const std::less_equal<const std::uint8_t*> before;
    return before(bytes_.data(), piece.data()) &&
           before(piece.data() + piece.size(), bytes_.data() + bytes_.size() + kScratch);
  }
  [[nodiscard]] int fd() const { return fd_; }
  /// Where a byte of bytes() or scratch() is in the file.
  [[nodiscard]] std::int64_t offset_of(const std::uint8_t* byte) const {
    return byte - bytes_.data();
  }

  /// In a forked child.
  void abandon();

 private:
  static constexpr std::size_t kScratch = 4096;

  FrameBuffers(int fd, std::span<std::uint8_t> bytes) : fd_{fd}, bytes_{bytes} {}

  int fd_;
  std::span<std::uint8_t> bytes_;
};

}  // namespace verbena::memory
