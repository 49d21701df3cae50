#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"

namespace verbena::packet {

/// XRC extended transport header (IBA annex A14): whose receive queue an XRC request uses. Every
/// packet of a request carries it, responses don't.
struct Xrceth {
  static constexpr std::size_t kSize = 4;

  std::uint32_t xrcsrq = 0;  // 24 bits: number of the shared receive queue

  friend constexpr bool operator==(const Xrceth&, const Xrceth&) = default;
};

[[nodiscard]] constexpr std::optional<Xrceth> decode_xrceth(std::span<const std::uint8_t> b) {
  if (b.size() < Xrceth::kSize) return std::nullopt;
  return Xrceth{load_be24(&b[1])};
}

/// `b` holds at least Xrceth::kSize bytes.
constexpr void encode_xrceth(const Xrceth& h, std::span<std::uint8_t> b) {
  b[0] = 0;
  store_be24(&b[1], h.xrcsrq);
}

}  // namespace verbena::packet
