#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena::memory {

/// Bytes of the aligned word of 8, 4 or 2 bytes that the range ends with; 1 where there is none.
[[nodiscard]] constexpr std::size_t last_unit(std::uint64_t address, std::size_t bytes) {
  std::size_t unit = 8;
  while (unit > 1 && (unit > bytes || (address + bytes) % unit != 0)) unit /= 2;
  return unit;
}

}  // namespace verbena::memory
