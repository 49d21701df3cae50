#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "memory/cuda/lane.h"
#include "memory/dma.h"

namespace verbena::memory::cuda {

/// An allocation of GPU memory. Each access makes sure that it is still the one that was
/// registered: a freed one fails, and so does what was allocated later in its place.
///
/// Copies into it become as few as they can: the parts of frames that lie alike are one. The last
/// part waits for finish(), which stores its last word behind everything else. Atomics are a read
/// and a write: atomic among requests of this process, not towards code that runs on the GPU.
class Buffer final : public Dma {
 public:
  /// The lane outlives it.
  Buffer(const Driver& driver, Lane& lane, std::uint64_t id)
      : driver_{driver}, lane_{lane}, id_{id} {}

  /// EFAULT: not a part of this allocation.
  [[nodiscard]] Status prepare(const Segment& range, bool write) override;

  /// A copy with its end awaited takes 6 us and 20 us for each MiB.
  [[nodiscard]] std::uint32_t frames_at_once() const override { return 256; }
  [[nodiscard]] bool gather(std::span<const Segment> from, std::span<std::uint8_t> into) override;
  [[nodiscard]] bool scatter(std::span<const std::uint8_t> from,
                             std::span<const Segment> into) override;
  [[nodiscard]] bool gather_parts(std::uint64_t address, const FrameParts& into) override;
  [[nodiscard]] bool scatter_all(std::span<const Copy> list) override;
  [[nodiscard]] bool finish() override;

  [[nodiscard]] std::optional<std::uint64_t> compare_swap(std::uint64_t address,
                                                          std::uint64_t compare,
                                                          std::uint64_t swap) override;
  [[nodiscard]] std::optional<std::uint64_t> fetch_add(std::uint64_t address,
                                                       std::uint64_t add) override;
  [[nodiscard]] bool store(std::uint64_t address, std::uint64_t value) override;

  [[nodiscard]] bool is_alive(std::uint64_t address) const {
    return look_up(driver_, address).buffer == id_;
  }

 private:
  /// Parts of frames that lie alike, for places one behind another.
  struct Run {
    const std::uint8_t* first;
    DevicePointer to;
    std::size_t size;
    std::size_t stride;
    std::size_t count;
  };

  [[nodiscard]] bool started(bool well);
  [[nodiscard]] bool add(std::span<const std::uint8_t> from, DevicePointer to);
  [[nodiscard]] static bool extends(const Run& run, std::span<const std::uint8_t> from,
                                    DevicePointer to);
  [[nodiscard]] bool start(const Run& run);
  /// All but its last part, which stays.
  [[nodiscard]] bool start_most();
  /// Last word last.
  [[nodiscard]] bool put(DevicePointer to, std::span<const std::uint8_t> from);
  [[nodiscard]] std::optional<std::uint64_t> load(std::uint64_t address);

  const Driver& driver_;
  Lane& lane_;
  std::uint64_t id_;
  std::optional<Run> run_;  // not started yet
};

}  // namespace verbena::memory::cuda
