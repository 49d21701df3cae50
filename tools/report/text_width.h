#pragma once

// Text in columns of a terminal. Each of our letters and signs is one column wide.

#include <string>
#include <string_view>

#include "base/utf8.h"

namespace verbena::report {

[[nodiscard]] constexpr std::size_t width(std::string_view text) {
  std::size_t columns = 0;
  for (const char c : text) columns += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
  return columns;
}

/// At most so many columns; what is longer ends with "…".
[[nodiscard]] inline std::string clipped(std::string_view text, std::size_t columns) {
  if (width(text) <= columns) return std::string{text};
  std::size_t at = 0, used = 0;
  for (; at < text.size(); ++at) {
    const bool begins = (static_cast<unsigned char>(text[at]) & 0xc0) != 0x80;
    if (begins && ++used == columns) break;
  }
  return std::string{text.substr(0, at)} + "…";
}

/// False for control characters, and for those that turn the direction of the text around them.
[[nodiscard]] constexpr bool is_harmless(char32_t c) {
  const bool control = c < 0x20 || (c >= 0x7f && c < 0xa0);
  const bool direction = c == 0x061c || c == 0x200e || c == 0x200f ||
                         (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
  const bool in_xml = c != 0xfffe && c != 0xffff;
  return !control && !direction && in_xml;
}

/// What came from a file: neither a terminal nor a browser may obey it. What is no UTF-8 is
/// replaced, too.
[[nodiscard]] inline std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const auto [code, size] = first_code_point(text).value_or(CodePoint{0, 1});
    if (is_harmless(code)) {
      result += text.substr(0, size);
    } else {
      result += '?';
    }
    text.remove_prefix(size);
  }
  return result;
}

}  // namespace verbena::report
