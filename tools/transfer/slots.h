#pragma once

// The memory of a queue pair's chunks in flight, the same at both ends: the sender owns slot i here
// and there from the moment that it reads a chunk until the receiver has stored it.

#include <cstddef>
#include <cstdint>

#include "tools/transfer/messages.h"

namespace verbena::transfer {

struct Slots {
  std::uint32_t count = 0;
  std::uint32_t chunk_size = 0;

  // The bytes of a chunk begin on a page, and their header stands right before.
  static constexpr std::size_t kPage = 4096;
  [[nodiscard]] std::size_t stride() const {
    return kPage + (chunk_size + kPage - 1) / kPage * kPage;
  }
  [[nodiscard]] std::size_t size() const { return count * stride(); }
  [[nodiscard]] std::size_t data_at(std::size_t slot) const { return slot * stride() + kPage; }
  [[nodiscard]] std::size_t header_at(std::size_t slot) const {
    return data_at(slot) - ChunkHeader::kSize;
  }
};

/// The receiver's answer to a chunk, in immediate data: the slot, and what became of the chunk.
enum class Stored : std::uint8_t { yes = 0, wrong_hash, dropped };

[[nodiscard]] constexpr std::uint32_t answer_of(std::uint32_t slot, Stored stored) {
  return slot | static_cast<std::uint32_t>(stored) << 16;
}

}  // namespace verbena::transfer
