#pragma once

// Data that two ends can make without telling each other more than a seed: what arrives late, in
// the wrong place or from an earlier run shows.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace lab {

/// Every bit of the result depends on every bit of `value` (the finalizer of splitmix64).
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58'476d'1ce4'e5b9u;
  value = (value ^ (value >> 27)) * 0x94d0'49bb'1331'11ebu;
  return value ^ (value >> 31);
}
[[nodiscard]] constexpr std::uint64_t seeded_word(std::uint64_t seed, std::uint64_t index) {
  return mix((seed + 1) * 0x9e37'79b9'7f4a'7c15u + index);
}

inline void fill_seeded(std::span<std::byte> bytes, std::uint64_t seed) {
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const std::uint64_t word = seeded_word(seed, at / 8);
    std::memcpy(&bytes[at], &word, std::min<std::size_t>(8, bytes.size() - at));
  }
}

/// Where the first word lies that isn't of this seed; nullopt: all is as it should be.
[[nodiscard]] inline std::optional<std::size_t> seeded_broken_at(std::span<const std::byte> bytes,
                                                                 std::uint64_t seed) {
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const std::uint64_t word = seeded_word(seed, at / 8);
    if (std::memcmp(&bytes[at], &word, std::min<std::size_t>(8, bytes.size() - at)) != 0) {
      return at;
    }
  }
  return std::nullopt;
}

}  // namespace lab
