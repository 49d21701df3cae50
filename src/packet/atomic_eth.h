#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/numbers.h"

namespace verbena::packet {

/// Atomic extended transport header (IBA 9.3.4): the word and the operands.
struct AtomicEth {
  static constexpr std::size_t kSize = 28;

  std::uint64_t address = 0;
  Key rkey;
  std::uint64_t swap_or_add = 0;  // COMPARE_SWAP: the new value; FETCH_ADD: the summand
  std::uint64_t compare = 0;      // COMPARE_SWAP only

  friend constexpr bool operator==(const AtomicEth&, const AtomicEth&) = default;
};

[[nodiscard]] constexpr std::optional<AtomicEth> decode_atomic_eth(
    std::span<const std::uint8_t> b) {
  if (b.size() < AtomicEth::kSize) return std::nullopt;
  return AtomicEth{.address = load_be64(&b[0]),
                   .rkey = Key{load_be32(&b[8])},
                   .swap_or_add = load_be64(&b[12]),
                   .compare = load_be64(&b[20])};
}

/// `b` holds at least AtomicEth::kSize bytes.
constexpr void encode_atomic_eth(const AtomicEth& h, std::span<std::uint8_t> b) {
  store_be64(&b[0], h.address);
  store_be32(&b[8], h.rkey.value());
  store_be64(&b[12], h.swap_or_add);
  store_be64(&b[20], h.compare);
}

}  // namespace verbena::packet
