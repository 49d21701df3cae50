#pragma once

// The hashes of a file: one of each chunk, and one of all of these.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace verbena::transfer {

/// XXH3, 128 bits: it finds damage. It doesn't resist somebody who forges data on purpose.
using Hash = std::array<std::uint8_t, 16>;

[[nodiscard]] Hash hash_of(std::span<const std::byte> bytes);

/// The hash of a chunk of that many zeros, which holes are read as.
[[nodiscard]] Hash hash_of_zeros(std::size_t size);

/// How a file is cut: all chunks have the same size, but the last may be shorter.
struct Chunks {
  std::uint64_t file_size = 0;
  std::uint32_t chunk_size = 1;

  [[nodiscard]] std::uint64_t count() const {
    return file_size / chunk_size + (file_size % chunk_size != 0 ? 1 : 0);
  }
  [[nodiscard]] std::uint64_t offset(std::uint64_t chunk) const { return chunk * chunk_size; }
  [[nodiscard]] std::uint32_t length(std::uint64_t chunk) const {
    const std::uint64_t left = file_size - offset(chunk);
    return left < chunk_size ? static_cast<std::uint32_t>(left) : chunk_size;
  }
};

/// The hash over the hashes of all chunks, and over how the file is cut.
[[nodiscard]] Hash root_of(const Chunks& chunks, const std::vector<Hash>& leaves);

}  // namespace verbena::transfer
