#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/numbers.h"

namespace verbena::engine {

/// What a registration permits. Numbered as ibv_access_flags.
struct Access {
  static constexpr unsigned kLocalWrite = 1u << 0;
  static constexpr unsigned kRemoteWrite = 1u << 1;
  static constexpr unsigned kRemoteRead = 1u << 2;
  static constexpr unsigned kRemoteAtomic = 1u << 3;
};

/// A run of bytes in the program's memory, as the program addresses it.
struct Segment {
  std::uint64_t address = 0;
  std::uint64_t length = 0;
};

/// Every copy in and out of registered memory. A false return means that the memory is gone
/// or protected; nothing is ever raised in the program.
class Dma {
 public:
  /// A snapshot: reads each byte once, in order, into `into` (as long as all segments together).
  [[nodiscard]] virtual bool gather(std::span<const Segment> from,
                                    std::span<std::uint8_t> into) = 0;
  /// Writes ascending, last byte last: programs poll the last byte.
  [[nodiscard]] virtual bool scatter(std::span<const std::uint8_t> from,
                                     std::span<const Segment> into) = 0;

 protected:
  ~Dma() = default;
};

/// Unpredictable numbers. An input like time, so that simulations replay.
class Entropy {
 public:
  [[nodiscard]] virtual std::uint32_t next() = 0;

 protected:
  ~Entropy() = default;
};

/// Names a protection domain.
enum class PdId : std::uint32_t {};

struct MemoryRegion {
  Key key{};
  PdId pd{};
  unsigned access = 0;
  std::uint64_t iova = 0;     // what requests call the first byte
  std::uint64_t address = 0;  // where it is
  std::uint64_t length = 0;

  /// Without wrap: the range may end at the top of the address space.
  [[nodiscard]] constexpr bool contains(std::uint64_t at, std::uint64_t size) const {
    return at >= iova && at - iova <= length && size <= length - (at - iova);
  }
  [[nodiscard]] constexpr std::uint64_t translate(std::uint64_t at) const {
    return address + (at - iova);
  }
};

/// Regions by key: a flat, open-addressed table. Lookup cost doesn't depend on their number.
class KeyTable {
 public:
  KeyTable() : slots_(16) {}

  /// The region's key must be new and not 0.
  void insert(const MemoryRegion& region);
  bool erase(Key key);
  [[nodiscard]] const MemoryRegion* find(Key key) const;
  [[nodiscard]] std::size_t size() const { return used_; }

 private:
  [[nodiscard]] std::size_t home(Key key) const { return key.value() & (slots_.size() - 1); }
  void grow();

  std::vector<MemoryRegion> slots_;  // power of two; key 0 marks a free one
  std::size_t used_ = 0;
};

}  // namespace verbena::engine
