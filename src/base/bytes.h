#pragma once

// Big-endian fields and runs of bytes in buffers. The caller has checked the bounds.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace verbena {

/// memcpy without a call of memcpy: a sanitizer of the program sees such calls, but not the atomics
/// of this library by which one thread hands bytes over to another, and takes it for a race.
inline void copy_without_call(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) {
  const auto copy = [&]<typename Word>(Word word) {
    for (; bytes >= sizeof word; bytes -= sizeof word, to += sizeof word, from += sizeof word) {
      __builtin_memcpy(&word, from, sizeof word);
      __builtin_memcpy(to, &word, sizeof word);
      asm volatile("" ::: "memory");  // or the compiler makes the loop a call
    }
  };
  copy(std::uint64_t{});
  copy(std::uint8_t{});
}

constexpr std::uint16_t load_be16(const std::uint8_t* p) {
  return static_cast<std::uint16_t>((p[0] << 8) | p[1]);
}

constexpr std::uint32_t load_be24(const std::uint8_t* p) {
  return (std::uint32_t{p[0]} << 16) | (std::uint32_t{p[1]} << 8) | p[2];
}

constexpr std::uint32_t load_be32(const std::uint8_t* p) {
  return (std::uint32_t{p[0]} << 24) | load_be24(p + 1);
}

constexpr std::uint64_t load_be64(const std::uint8_t* p) {
  return (std::uint64_t{load_be32(p)} << 32) | load_be32(p + 4);
}

constexpr void store_be16(std::uint8_t* p, std::uint16_t v) {
  p[0] = static_cast<std::uint8_t>(v >> 8);
  p[1] = static_cast<std::uint8_t>(v);
}

constexpr void store_be24(std::uint8_t* p, std::uint32_t v) {
  p[0] = static_cast<std::uint8_t>(v >> 16);
  p[1] = static_cast<std::uint8_t>(v >> 8);
  p[2] = static_cast<std::uint8_t>(v);
}

constexpr void store_be32(std::uint8_t* p, std::uint32_t v) {
  p[0] = static_cast<std::uint8_t>(v >> 24);
  store_be24(p + 1, v);
}

constexpr void store_be64(std::uint8_t* p, std::uint64_t v) {
  store_be32(p, static_cast<std::uint32_t>(v >> 32));
  store_be32(p + 4, static_cast<std::uint32_t>(v));
}

template <std::size_t N>
constexpr std::array<std::uint8_t, N> load_bytes(const std::uint8_t* p) {
  std::array<std::uint8_t, N> out{};
  std::copy_n(p, N, out.begin());
  return out;
}

template <std::size_t N>
constexpr void store_bytes(std::uint8_t* p, const std::array<std::uint8_t, N>& bytes) {
  std::copy_n(bytes.begin(), N, p);
}

}  // namespace verbena
