#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/numbers.h"

namespace verbena::packet {

/// Invalidate extended transport header (IBA 9.3, IETH): the key that a SEND takes away.
struct Ieth {
  static constexpr std::size_t kSize = 4;

  Key rkey;

  friend constexpr bool operator==(const Ieth&, const Ieth&) = default;
};

[[nodiscard]] constexpr std::optional<Ieth> decode_ieth(std::span<const std::uint8_t> b) {
  if (b.size() < Ieth::kSize) return std::nullopt;
  return Ieth{Key{load_be32(&b[0])}};
}

/// `b` holds at least Ieth::kSize bytes.
constexpr void encode_ieth(const Ieth& h, std::span<std::uint8_t> b) {
  store_be32(&b[0], h.rkey.value());
}

}  // namespace verbena::packet
