#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/numbers.h"

namespace verbena::packet {

/// RDMA extended transport header (IBA 9.3.3): where a WRITE goes or a READ comes from.
struct Reth {
  static constexpr std::size_t kSize = 16;

  std::uint64_t address = 0;
  Key rkey;
  std::uint32_t length = 0;  // of the whole message

  friend constexpr bool operator==(const Reth&, const Reth&) = default;
};

[[nodiscard]] constexpr std::optional<Reth> decode_reth(std::span<const std::uint8_t> b) {
  if (b.size() < Reth::kSize) return std::nullopt;
  return Reth{load_be64(&b[0]), Key{load_be32(&b[8])}, load_be32(&b[12])};
}

/// `b` holds at least Reth::kSize bytes.
constexpr void encode_reth(const Reth& h, std::span<std::uint8_t> b) {
  store_be64(&b[0], h.address);
  store_be32(&b[8], h.rkey.value());
  store_be32(&b[12], h.length);
}

}  // namespace verbena::packet
