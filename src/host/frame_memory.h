#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "engine/memory.h"

namespace verbena::host {

/// The memory that frames lie in: a mapped memfd. Copies between a frame and the program's
/// memory are then pread() and pwrite(): one copy, ascending, done by the kernel, which answers
/// EFAULT where a load or store would raise a signal. See docs/decisions/004-safe-copies.md.
class FrameMemory final : public engine::Dma {
 public:
  static Result<std::unique_ptr<FrameMemory>> create(std::size_t bytes);
  ~FrameMemory();
  FrameMemory(const FrameMemory&) = delete;
  FrameMemory& operator=(const FrameMemory&) = delete;

  [[nodiscard]] std::span<std::uint8_t> bytes() const { return bytes_; }

  // `into` and `from` lie in bytes().
  [[nodiscard]] bool gather(std::span<const engine::Segment> from,
                            std::span<std::uint8_t> into) override;
  [[nodiscard]] bool scatter(std::span<const std::uint8_t> from,
                             std::span<const engine::Segment> into) override;

  /// In a forked child.
  void abandon();

 private:
  FrameMemory(int fd, std::span<std::uint8_t> bytes) : fd_{fd}, bytes_{bytes} {}
  [[nodiscard]] bool inside(const std::uint8_t* p, std::size_t n) const;

  int fd_;
  std::span<std::uint8_t> bytes_;
};

}  // namespace verbena::host
