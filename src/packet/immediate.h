#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace verbena::packet {

/// Immediate data (IBA 9.3, ImmDt) in network order, as the verbs hand it over: the bytes,
/// not a number.
using Immediate = std::array<std::uint8_t, 4>;
inline constexpr std::size_t kImmediateSize = Immediate{}.size();

[[nodiscard]] constexpr std::optional<Immediate> decode_immediate(std::span<const std::uint8_t> b) {
  if (b.size() < kImmediateSize) return std::nullopt;
  return Immediate{b[0], b[1], b[2], b[3]};
}

/// `b` holds at least kImmediateSize bytes.
constexpr void encode_immediate(const Immediate& h, std::span<std::uint8_t> b) {
  std::copy(h.begin(), h.end(), b.begin());
}

}  // namespace verbena::packet
