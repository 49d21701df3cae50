#pragma once

// UTF-8, RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.

#include <cstddef>
#include <optional>
#include <string_view>

namespace verbena {

struct CodePoint {
  char32_t value = 0;
  std::size_t size = 0;  // bytes
};

/// What `text` begins with; nullopt: its first byte begins no valid sequence.
[[nodiscard]] constexpr std::optional<CodePoint> first_code_point(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return CodePoint{first, 1};
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return std::nullopt;
  char32_t value = first & (0x7fu >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return std::nullopt;
    value = value << 6 | (byte(i) & 0x3fu);
  }
  const bool overlong = (size == 3 && value < 0x800) || (size == 4 && value < 0x1'0000);
  const bool surrogate = value >= 0xd800 && value <= 0xdfff;
  if (overlong || surrogate || value > 0x10'ffff) return std::nullopt;
  return CodePoint{value, size};
}

}  // namespace verbena
