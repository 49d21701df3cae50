#pragma once

#include <cstdint>
#include <span>

#include "memory/dma.h"
#include "memory/frame_buffers.h"

namespace verbena::memory {

/// The program's own memory. Where faults are caught (fault_handler.h), copies are made in user
/// mode. Elsewhere, and after a fault, they are pread() and pwrite() on the frames' memfd: the
/// kernel answers EFAULT where a load or store would raise a signal. Both put the last byte of each
/// copy in its place last, with the aligned word that it ends, and are done on return. In user mode
/// all aligned words stay whole. See docs/decisions/004-safe-copies.md.
class HostMemory final : public Dma {
 public:
  /// `frames` outlives it.
  explicit HostMemory(const FrameBuffers& frames) : frames_{frames} {}

  [[nodiscard]] Status prepare(const Segment& range, bool write) override;

  // Frames lie in the frame buffers or in a ring between processes.
  [[nodiscard]] bool gather(std::span<const Segment> from, std::span<std::uint8_t> into) override;
  [[nodiscard]] bool scatter(std::span<const std::uint8_t> from,
                             std::span<const Segment> into) override;
  [[nodiscard]] bool gather_parts(std::uint64_t address, const FrameParts& into) override;
  [[nodiscard]] bool scatter_all(std::span<const Copy> list) override;

  // CPU atomics. Where faults aren't caught, the word is made sure of first, but a program that
  // unmaps it at that very moment gets the signal.
  [[nodiscard]] std::optional<std::uint64_t> compare_swap(std::uint64_t address,
                                                          std::uint64_t compare,
                                                          std::uint64_t swap) override;
  [[nodiscard]] std::optional<std::uint64_t> fetch_add(std::uint64_t address,
                                                       std::uint64_t add) override;
  [[nodiscard]] bool store(std::uint64_t address, std::uint64_t value) override;

 private:
  // By the kernel.
  [[nodiscard]] bool write_frame(std::span<const Segment> from, std::span<std::uint8_t> into);
  [[nodiscard]] bool read_frame(std::span<const std::uint8_t> from, std::span<const Segment> into);
  // One call for all, because what lies between two parts is near enough to be copied with them:
  // from zeros, or to nowhere.
  [[nodiscard]] bool write_frames(std::uint64_t address, const FrameParts& into);
  [[nodiscard]] bool read_frames(std::span<const Copy> list);

  const FrameBuffers& frames_;
};

}  // namespace verbena::memory
