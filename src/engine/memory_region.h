#pragma once

#include <cstdint>

#include "base/numbers.h"
#include "memory/dma.h"

namespace verbena::engine {

using memory::Segment;

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
  memory::Dma* backing = nullptr;  // the kind of memory that it lies in
  Type type = Type::region;
  bool bound = true;     // a window may be not
  Key parent{};          // of a bound window
  Qpn owner{};           // of a bound type 2 window
  unsigned windows = 0;  // bound to this region

  /// Without wrap: the range may end at the top of the address space.
  [[nodiscard]] constexpr bool contains(std::uint64_t at, std::uint64_t size) const {
    return at >= iova && at - iova <= length && size <= length - (at - iova);
  }
  /// Where it is.
  [[nodiscard]] constexpr std::uint64_t translate(std::uint64_t at) const {
    return address + (at - iova);
  }
  [[nodiscard]] constexpr Segment segment(std::uint64_t at, std::uint64_t size) const {
    return {translate(at), size, backing};
  }
};

}  // namespace verbena::engine
