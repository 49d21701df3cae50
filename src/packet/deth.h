#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/numbers.h"

namespace verbena::packet {

/// Datagram extended transport header (IBA 9.3.2): who sent it, and the right to send it here.
struct Deth {
  static constexpr std::size_t kSize = 8;

  std::uint32_t qkey = 0;
  Qpn source;

  friend constexpr bool operator==(const Deth&, const Deth&) = default;
};

[[nodiscard]] constexpr std::optional<Deth> decode_deth(std::span<const std::uint8_t> b) {
  if (b.size() < Deth::kSize) return std::nullopt;
  return Deth{load_be32(&b[0]), Qpn{load_be24(&b[5])}};
}

/// `b` holds at least Deth::kSize bytes.
constexpr void encode_deth(const Deth& h, std::span<std::uint8_t> b) {
  store_be32(&b[0], h.qkey);
  b[4] = 0;
  store_be24(&b[5], h.source.value());
}

}  // namespace verbena::packet
