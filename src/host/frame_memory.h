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

  // `into` lies in bytes(); `from` does, or is small (a header, a word).
  [[nodiscard]] bool gather(std::span<const engine::Segment> from,
                            std::span<std::uint8_t> into) override;
  [[nodiscard]] bool scatter(std::span<const std::uint8_t> from,
                             std::span<const engine::Segment> into) override;
  // One call for all, because what lies between two parts is near enough to be copied with them:
  // from zeros, or to nowhere.
  [[nodiscard]] bool gather_parts(std::uint64_t address, const engine::FrameParts& into) override;
  [[nodiscard]] bool scatter_all(std::span<const engine::Placement> list) override;

  // CPU atomics. The word is made sure of first, but a program that unmaps it at that very
  // moment still gets the signal.
  [[nodiscard]] std::optional<std::uint64_t> compare_swap(std::uint64_t address,
                                                          std::uint64_t compare,
                                                          std::uint64_t swap) override;
  [[nodiscard]] std::optional<std::uint64_t> fetch_add(std::uint64_t address,
                                                       std::uint64_t add) override;
  [[nodiscard]] bool store(std::uint64_t address, std::uint64_t value) override;

  /// In a forked child.
  void abandon();

 private:
  static constexpr std::size_t kScratch = 4096;  // behind bytes_

  FrameMemory(int fd, std::span<std::uint8_t> bytes) : fd_{fd}, bytes_{bytes} {}
  [[nodiscard]] bool inside(const std::uint8_t* p, std::size_t n) const;

  int fd_;
  std::span<std::uint8_t> bytes_;
};

}  // namespace verbena::host
