#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/entropy.h"
#include "base/numbers.h"

namespace verbena::engine {

/// What a registration permits. Numbered as ibv_access_flags.
struct Access {
  static constexpr unsigned kLocalWrite = 1u << 0;
  static constexpr unsigned kRemoteWrite = 1u << 1;
  static constexpr unsigned kRemoteRead = 1u << 2;
  static constexpr unsigned kRemoteAtomic = 1u << 3;
  static constexpr unsigned kBindWindow = 1u << 4;
  static constexpr unsigned kZeroBased = 1u << 5;
  static constexpr unsigned kOnDemand = 1u << 6;  // its memory may come and go
  static constexpr unsigned kFlushGlobal = 1u << 8;
  static constexpr unsigned kFlushPersistent = 1u << 9;
};

/// A run of bytes in the program's memory, as the program addresses it.
struct Segment {
  /// As an address: memory that reads as zeros and keeps nothing. No program can map it.
  static constexpr std::uint64_t kNull = ~std::uint64_t{0};

  std::uint64_t address = 0;
  std::uint64_t length = 0;
};

/// Bytes of a frame, and where they go.
struct Placement {
  std::span<const std::uint8_t> from;
  std::uint64_t address = 0;
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

/// Every access to registered memory. A false return (or nullopt) means that the memory is gone
/// or protected; nothing is ever raised in the program.
class Dma {
 public:
  /// A snapshot: reads each byte once, in order, into `into` (as long as all segments together).
  [[nodiscard]] virtual bool gather(std::span<const Segment> from,
                                    std::span<std::uint8_t> into) = 0;
  /// Writes ascending, last byte last: programs poll the last byte.
  [[nodiscard]] virtual bool scatter(std::span<const std::uint8_t> from,
                                     std::span<const Segment> into) = 0;

  // Many at once, where a call is dear.

  /// The bytes from `address` on into the parts, one after the other. What lies between the parts
  /// is not kept.
  [[nodiscard]] virtual bool gather_parts(std::uint64_t address, const FrameParts& into);
  /// In order.
  [[nodiscard]] virtual bool scatter_all(std::span<const Placement> list);

  // Aligned 64-bit words in the machine's order, atomic towards the program's own CPU atomics.
  // The result is what the word held before.

  [[nodiscard]] virtual std::optional<std::uint64_t> compare_swap(std::uint64_t address,
                                                                  std::uint64_t compare,
                                                                  std::uint64_t swap) = 0;
  [[nodiscard]] virtual std::optional<std::uint64_t> fetch_add(std::uint64_t address,
                                                               std::uint64_t add) = 0;
  [[nodiscard]] virtual bool store(std::uint64_t address, std::uint64_t value) = 0;

 protected:
  ~Dma() = default;
};

using verbena::Entropy;

/// Names a protection domain.
enum class PdId : std::uint32_t {};

/// Names an XRC domain. 0: none.
enum class XrcdId : std::uint32_t {};

/// A registration: a region, or a window onto one (IBA 10.6.6, 10.6.7).
struct MemoryRegion {
  enum class Type : std::uint8_t {
    region,
    window_1,  // rebound by the device's own verb; belongs to a domain
    window_2,  // bound by a send request; its low 8 key bits are the consumer's, belongs to a queue
               // pair
  };

  Key key{};
  PdId pd{};
  unsigned access = 0;
  std::uint64_t iova = 0;     // what requests call the first byte
  std::uint64_t address = 0;  // where it is
  std::uint64_t length = 0;
  Type type = Type::region;
  bool bound = true;     // a window may be not
  Key parent{};          // of a bound window
  Qpn owner{};           // of a bound type 2 window
  unsigned windows = 0;  // bound to this region

  /// Without wrap: the range may end at the top of the address space.
  [[nodiscard]] constexpr bool contains(std::uint64_t at, std::uint64_t size) const {
    return at >= iova && at - iova <= length && size <= length - (at - iova);
  }
  [[nodiscard]] constexpr std::uint64_t translate(std::uint64_t at) const {
    return address == Segment::kNull ? address : address + (at - iova);
  }
};

/// Registrations by key: a flat, open-addressed table. Lookup cost doesn't depend on their
/// number. No two share the upper 24 bits, so that a window can change the lower 8.
class KeyTable {
 public:
  KeyTable() : slots_(16) {}

  /// The key is_free().
  void insert(const MemoryRegion& region);
  bool erase(Key key);
  [[nodiscard]] const MemoryRegion* find(Key key) const;
  [[nodiscard]] MemoryRegion* find(Key key) {
    return const_cast<MemoryRegion*>(std::as_const(*this).find(key));
  }
  /// Whatever has the same upper 24 bits: a window, whose lower 8 are its consumer's.
  [[nodiscard]] MemoryRegion* find_window(Key key);
  /// Nothing has the same upper 24 bits, and they are not all 0.
  [[nodiscard]] bool is_free(Key key) const;
  [[nodiscard]] std::size_t size() const { return used_; }
  /// `f` may change what an entry says, but not its key.
  template <typename F>
  void for_each(F f) {
    for (MemoryRegion& r : slots_) {
      if (r.key != Key{}) f(r);
    }
  }

 private:
  [[nodiscard]] static std::uint32_t prefix(Key key) { return key.value() >> 8; }
  [[nodiscard]] std::size_t home(Key key) const { return prefix(key) & (slots_.size() - 1); }
  void grow();

  std::vector<MemoryRegion> slots_;  // power of two; key 0 marks a free one
  std::size_t used_ = 0;
};

}  // namespace verbena::engine
