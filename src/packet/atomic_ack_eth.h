#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"

namespace verbena::packet {

/// Atomic acknowledge extended transport header (IBA 9.3).
struct AtomicAckEth {
  static constexpr std::size_t kSize = 8;

  std::uint64_t original = 0;  // what the word held before the operation

  friend constexpr bool operator==(const AtomicAckEth&, const AtomicAckEth&) = default;
};

[[nodiscard]] constexpr std::optional<AtomicAckEth> decode_atomic_ack_eth(
    std::span<const std::uint8_t> b) {
  if (b.size() < AtomicAckEth::kSize) return std::nullopt;
  return AtomicAckEth{load_be64(&b[0])};
}

/// `b` holds at least AtomicAckEth::kSize bytes.
constexpr void encode_atomic_ack_eth(const AtomicAckEth& h, std::span<std::uint8_t> b) {
  store_be64(&b[0], h.original);
}

}  // namespace verbena::packet
