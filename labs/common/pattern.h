#pragma once

// Bytes that both ends can make without telling each other more than a number, and that tell where
// they belong: of another message, or of another place of the same one, they would differ.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "labs/common/lab.h"

namespace lab {

/// Every bit of the result depends on every bit of `value` (the finalizer of splitmix64).
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58'476d'1ce4'e5b9u;
  value = (value ^ (value >> 27)) * 0x94d0'49bb'1331'11ebu;
  return value ^ (value >> 31);
}
/// Eight bytes of message `seed`.
[[nodiscard]] constexpr std::uint64_t pattern_word(std::uint64_t seed, std::uint64_t index) {
  return mix((seed + 1) * 0x9e37'79b9'7f4a'7c15u + index);
}

/// The message of that number, as long as there is room.
inline void fill_pattern(std::span<std::byte> bytes, std::uint64_t seed) {
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const std::uint64_t word = pattern_word(seed, at / 8);
    std::memcpy(&bytes[at], &word, std::min<std::size_t>(8, bytes.size() - at));
  }
}

/// Where the first wrong byte is; bytes.size(): there is none.
[[nodiscard]] inline std::size_t first_difference(std::span<const std::byte> bytes,
                                                  std::uint64_t seed) {
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const std::uint64_t word = pattern_word(seed, at / 8);
    const auto wanted = std::as_bytes(std::span{&word, 1});
    const auto found = bytes.subspan(at, std::min<std::size_t>(8, bytes.size() - at));
    if (std::memcmp(found.data(), wanted.data(), found.size()) == 0) continue;
    const auto where = std::ranges::mismatch(found, wanted).in1;
    return at + static_cast<std::size_t>(where - found.begin());
  }
  return bytes.size();
}

/// Throws Failed at the first byte that differs.
inline void check_pattern(std::span<const std::byte> bytes, std::uint64_t seed, const char* what) {
  const std::size_t i = first_difference(bytes, seed);
  check(i == bytes.size(), "{}: byte {} of {} is {:#04x}, which isn't of message {}", what, i,
        bytes.size(), i < bytes.size() ? std::to_integer<unsigned>(bytes[i]) : 0u, seed);
}

}  // namespace lab
