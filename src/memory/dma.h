#pragma once

// One kind of memory, and how bytes get into it and out of it. Sans-I/O: the engine includes this.
//
//   Segment --names--> Dma (HostMemory, NullMemory, …)
//
// A copy is started by gather() or scatter(). A kind whose copies take time may return before the
// bytes are there; it is then pending(), and finish() waits. Until then the frame and the memory
// stay as they are. The engine finishes gathers before the frame leaves, and scatters before an
// acknowledgement or a completion (engine/copies.h).

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"

namespace verbena::memory {

class Dma;

/// A run of bytes in one kind of memory, as the program addresses it.
struct Segment {
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  Dma* backing = nullptr;  // nullptr, for registration: the program's own memory
};

/// Bytes of a frame, and the address that they go to.
struct Copy {
  std::span<const std::uint8_t> from;
  std::uint64_t to = 0;
};

/// Equal parts of frames that lie one behind another.
struct FrameParts {
  std::span<std::uint8_t> first;
  std::size_t stride = 0;  // from one to the next
  std::size_t count = 0;

  [[nodiscard]] std::span<std::uint8_t> operator[](std::size_t i) const {
    return {first.data() + i * stride, first.size()};
  }
};

/// Every access to registered memory of one kind. A false return (or nullopt) means that the memory
/// is gone or protected; nothing is ever raised in the program.
class Dma {
 public:
  // Segments are of this kind.

  /// A snapshot: reads each byte once, in order, into `into` (as long as all segments together).
  [[nodiscard]] virtual bool gather(std::span<const Segment> from,
                                    std::span<std::uint8_t> into) = 0;
  /// Writes ascending, last byte last: programs poll the last byte.
  [[nodiscard]] virtual bool scatter(std::span<const std::uint8_t> from,
                                     std::span<const Segment> into) = 0;

  /// Before registration: the range is there, may be read and, for `write`, written; and it is made
  /// present. EFAULT otherwise. Any thread.
  [[nodiscard]] virtual Status prepare([[maybe_unused]] const Segment& range,
                                       [[maybe_unused]] bool write) {
    return Ok{};
  }

  // Many at once, where a call is dear.

  /// How many frames of 4 KiB a call should have. 16: what one batch of the wire holds.
  [[nodiscard]] virtual std::uint32_t frames_at_once() const { return 16; }

  /// The bytes from `address` on into the parts, one after the other. What lies between the parts
  /// is not kept.
  [[nodiscard]] virtual bool gather_parts(std::uint64_t address, const FrameParts& into) {
    const std::size_t size = into.first.size();
    for (std::size_t i = 0; i < into.count; ++i) {
      if (!gather(std::array{Segment{address + i * size, size, this}}, into[i])) return false;
    }
    return true;
  }
  /// In order.
  [[nodiscard]] virtual bool scatter_all(std::span<const Copy> list) {
    return std::all_of(list.begin(), list.end(), [this](const Copy& c) {
      return scatter(c.from, std::array{Segment{c.to, c.from.size(), this}});
    });
  }

  /// Waits until all that was started is done. False: a copy failed since the last time.
  [[nodiscard]] virtual bool finish() { return true; }
  /// Copies were started that finish() has not waited for.
  [[nodiscard]] bool pending() const { return pending_; }

  // Registrations of it.

  void add_region() { ++regions_; }
  void drop_region() { --regions_; }
  [[nodiscard]] bool is_registered() const { return regions_ != 0; }

  // Aligned 64-bit words in the machine's order, atomic towards the program's own CPU atomics.
  // The result is what the word held before. Done on return.

  [[nodiscard]] virtual std::optional<std::uint64_t> compare_swap(std::uint64_t address,
                                                                  std::uint64_t compare,
                                                                  std::uint64_t swap) = 0;
  [[nodiscard]] virtual std::optional<std::uint64_t> fetch_add(std::uint64_t address,
                                                               std::uint64_t add) = 0;
  [[nodiscard]] virtual bool store(std::uint64_t address, std::uint64_t value) = 0;

 protected:
  ~Dma() = default;

  /// For kinds whose copies take time.
  void set_pending(bool pending) { pending_ = pending; }

 private:
  bool pending_ = false;
  std::uint64_t regions_ = 0;
};

}  // namespace verbena::memory
