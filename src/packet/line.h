#pragma once

#include <array>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

namespace verbena::packet {

/// Collects words with a space between them.
class Line {
 public:
  explicit Line(std::string_view start) : text_{start} {}

  void word(std::string_view w) {
    text_ += ' ';
    text_ += w;
  }
  void number(std::string_view name, std::uint64_t v) {
    word(name);
    word(std::to_string(v));
  }
  void hex(std::string_view name, std::uint64_t v, int digits) {
    std::array<char, 2 + 16 + 1> out{};
    std::snprintf(out.data(), out.size(), "0x%0*" PRIx64, digits, v);
    word(name);
    word(out.data());
  }
  [[nodiscard]] std::string take() && { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace verbena::packet
