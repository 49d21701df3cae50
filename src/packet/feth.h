#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"

namespace verbena::packet {

/// What a FLUSH applies to.
enum class Selectivity : std::uint8_t {
  range = 0,   // the bytes that the RETH names
  region = 1,  // the whole memory region of its rkey
  // 2 and 3 are reserved
};

/// FLUSH extended transport header (IBA annex A19).
struct Feth {
  static constexpr std::size_t kSize = 4;

  Selectivity selectivity = Selectivity::range;
  // The placement type: each bit asks for one guarantee.
  bool global_visibility = false;
  bool persistence = false;

  friend constexpr bool operator==(const Feth&, const Feth&) = default;
};

[[nodiscard]] constexpr std::optional<Feth> decode_feth(std::span<const std::uint8_t> b) {
  if (b.size() < Feth::kSize) return std::nullopt;
  return Feth{.selectivity = static_cast<Selectivity>((b[3] >> 4) & 3),
              .global_visibility = (b[3] & 0x01) != 0,
              .persistence = (b[3] & 0x02) != 0};
}

/// `b` holds at least Feth::kSize bytes.
constexpr void encode_feth(const Feth& h, std::span<std::uint8_t> b) {
  store_be24(&b[0], 0);
  b[3] = static_cast<std::uint8_t>(((static_cast<std::uint8_t>(h.selectivity) & 3) << 4) |
                                   (h.global_visibility ? 0x01 : 0) | (h.persistence ? 0x02 : 0));
}

}  // namespace verbena::packet
