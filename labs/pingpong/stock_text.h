#pragma once

// How ibv_rc_pingpong introduces itself over TCP: "lid:qpn:psn:gid" in hexadecimal, with a closing
// zero, 51 bytes. The client speaks first; its "done" says that it is ready, too.

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "rdma++/conn_info.h"

namespace pingpong {

inline constexpr std::size_t kTextSize =
    sizeof "0000:000000:000000:00000000000000000000000000000000";
inline constexpr std::array<char, 5> kDone{'d', 'o', 'n', 'e', '\0'};

[[nodiscard]] inline std::string encode(const rdma::ConnInfo& info) {
  std::string text = fmt::format("{:04x}:{:06x}:{:06x}:", info.lid, info.qpn, info.psn);
  for (const std::uint8_t byte : info.gid.bytes) text += fmt::format("{:02x}", byte);
  return text;
}

/// All of `digits` as one number, or nothing.
template <class Number>
[[nodiscard]] bool parse_hex(std::string_view digits, Number& value) {
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value, 16);
  return error == std::errc{} && stop == end;
}

/// nullopt: not such a text.
[[nodiscard]] inline std::optional<rdma::ConnInfo> decode(std::string_view text) {
  if (text.size() != kTextSize - 1 || text[4] != ':' || text[11] != ':' || text[18] != ':') {
    return std::nullopt;
  }
  rdma::ConnInfo info;
  bool good = parse_hex(text.substr(0, 4), info.lid) && parse_hex(text.substr(5, 6), info.qpn) &&
              parse_hex(text.substr(12, 6), info.psn);
  for (std::size_t i = 0; i < info.gid.bytes.size(); ++i) {
    good = good && parse_hex(text.substr(19 + 2 * i, 2), info.gid.bytes[i]);
  }
  return good ? std::optional{info} : std::nullopt;
}

}  // namespace pingpong
