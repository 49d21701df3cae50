#pragma once

// What an end shows before anything else: the lab it belongs to, and in which form that lab's ends
// speak. A peer of another lab, or of none, is turned away with both names.

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "labs/common/lab.h"

namespace lab {

/// On the wire as it stands here.
struct Badge {
  std::array<char, 4> magic{'v', 'b', 'l', 'b'};
  std::uint32_t layout = 0;     // big-endian
  std::array<char, 16> name{};  // zeros behind it

  friend bool operator==(const Badge&, const Badge&) = default;
};
static_assert(sizeof(Badge) == 24);

[[nodiscard]] inline Badge badge_of(const Options& options) {
  Badge badge{.layout = htonl(options.layout)};
  check(options.lab.size() <= badge.name.size(), "{}: a lab's name has {} letters at most",
        options.lab, badge.name.size());
  std::ranges::copy(options.lab, badge.name.begin());
  return badge;
}

[[nodiscard]] inline bool is_badge(std::span<const std::byte> shown) {
  const Badge any;
  return shown.size() >= sizeof any && std::memcmp(shown.data(), &any, sizeof any.magic) == 0;
}

/// Why whoever showed this doesn't belong to this lab; empty: it does.
[[nodiscard]] inline std::string stranger(const Options& options,
                                          std::span<const std::byte> shown) {
  if (!is_badge(shown)) return fmt::format("that is no end of `verbena lab {}`", options.lab);
  const Badge ours = badge_of(options);
  Badge theirs;
  std::memcpy(&theirs, shown.data(), sizeof theirs);
  if (theirs == ours) return "";
  if (theirs.name != ours.name) {
    const std::string name{theirs.name.begin(), std::ranges::find(theirs.name, '\0')};
    return fmt::format(
        "that is an end of `verbena lab {}`, this is one of `verbena lab {}`: "
        "start the same lab on both",
        name, options.lab);
  }
  return fmt::format(
      "its messages are of layout {}, ours of {}: have the same version of Verbena on both",
      ntohl(theirs.layout), options.layout);
}

}  // namespace lab
