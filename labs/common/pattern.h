#pragma once

// Bytes that tell where they belong: of another message, or of another place of the same one, they
// would differ.

#include <cstddef>
#include <cstdint>
#include <span>

#include "labs/common/lab.h"

namespace lab {

/// The byte at `index` of message `seed`.
[[nodiscard]] constexpr std::byte pattern_at(std::uint64_t seed, std::size_t index) {
  const std::uint64_t mixed = (seed + 1) * 0x9e37'79b9'7f4a'7c15u + index * 0xbf58'476d'1ce4'e5b9u;
  return static_cast<std::byte>(mixed >> 56);
}

inline void fill_pattern(std::span<std::byte> bytes, std::uint64_t seed) {
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern_at(seed, i);
}

/// Where the first wrong byte is; bytes.size(): there is none.
[[nodiscard]] inline std::size_t first_difference(std::span<const std::byte> bytes,
                                                  std::uint64_t seed) {
  std::size_t i = 0;
  while (i < bytes.size() && bytes[i] == pattern_at(seed, i)) ++i;
  return i;
}

/// Throws Failed at the first byte that differs.
inline void check_pattern(std::span<const std::byte> bytes, std::uint64_t seed, const char* what) {
  const std::size_t i = first_difference(bytes, seed);
  check(i == bytes.size(), "{}: byte {} of {} is {:#04x} instead of {:#04x}", what, i, bytes.size(),
        i < bytes.size() ? std::to_integer<unsigned>(bytes[i]) : 0u,
        std::to_integer<unsigned>(pattern_at(seed, i)));
}

}  // namespace lab
