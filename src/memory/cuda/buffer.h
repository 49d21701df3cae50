#pragma once

#include <cstdint>
#include <span>

#include "memory/cuda/lane.h"
#include "memory/dma.h"

namespace verbena::memory::cuda {

/// An allocation of GPU memory. Each access makes sure that it is still the one that was
/// registered: a freed one fails, and so does what was allocated later in its place.
///
/// A copy that the GPU must see in order ends with a store of its last word. Atomics are a read and
/// a write: atomic among requests of this process, not towards code that runs on the GPU.
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
  [[nodiscard]] bool put(DevicePointer to, std::span<const std::uint8_t> from);
  [[nodiscard]] bool started(bool well);
  [[nodiscard]] std::optional<std::uint64_t> load(std::uint64_t address);

  const Driver& driver_;
  Lane& lane_;
  std::uint64_t id_;
};

}  // namespace verbena::memory::cuda
