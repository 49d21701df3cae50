#pragma once

#include <cstdint>
#include <span>

#include "memory/dma.h"
#include "memory/frame_buffers.h"

namespace verbena::memory {

/// The program's own memory. Copies between it and a frame are pread() and pwrite() on the frames'
/// memfd: one copy, ascending, done by the kernel, which answers EFAULT where a load or store would
/// raise a signal. They are done on return. See docs/decisions/004-safe-copies.md.
class HostMemory final : public Dma {
 public:
  /// `frames` outlives it.
  explicit HostMemory(const FrameBuffers& frames) : frames_{frames} {}

  [[nodiscard]] Status prepare(const Segment& range, bool write) override;

  // `into` lies in the frame buffers; `from` does, or is small (a header, a word).
  [[nodiscard]] bool gather(std::span<const Segment> from, std::span<std::uint8_t> into) override;
  [[nodiscard]] bool scatter(std::span<const std::uint8_t> from,
                             std::span<const Segment> into) override;
  // One call for all, because what lies between two parts is near enough to be copied with them:
  // from zeros, or to nowhere.
  [[nodiscard]] bool gather_parts(std::uint64_t address, const FrameParts& into) override;
  [[nodiscard]] bool scatter_all(std::span<const Copy> list) override;

  // CPU atomics. The word is made sure of first, but a program that unmaps it at that very
  // moment still gets the signal.
  [[nodiscard]] std::optional<std::uint64_t> compare_swap(std::uint64_t address,
                                                          std::uint64_t compare,
                                                          std::uint64_t swap) override;
  [[nodiscard]] std::optional<std::uint64_t> fetch_add(std::uint64_t address,
                                                       std::uint64_t add) override;
  [[nodiscard]] bool store(std::uint64_t address, std::uint64_t value) override;

 private:
  const FrameBuffers& frames_;
};

}  // namespace verbena::memory
