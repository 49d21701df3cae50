#pragma once

// Text in columns of a terminal. Each of our letters and signs is one column wide.

#include <string>
#include <string_view>

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

/// What came from a file: a terminal must not obey it.
[[nodiscard]] inline std::string printable(std::string_view text) {
  std::string result{text};
  for (char& c : result) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return result;
}

}  // namespace verbena::report
