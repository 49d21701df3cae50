#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "tools/report/conversations.h"
#include "tools/report/observation.h"

namespace verbena::report {

/// What is the same of a packet wherever it is seen: its conversation, its direction, its headers.
struct PacketKey {
  std::uint32_t conversation = kNone;
  Side side = Side::left;  // who sent it
  std::string headers;

  friend auto operator<=>(const PacketKey&, const PacketKey&) = default;
};

[[nodiscard]] inline PacketKey key_of(const Observation& o, const Assigned& assigned) {
  PacketKey key{assigned.conversation, assigned.side, {o.headers.begin(), o.headers.end()}};
  constexpr std::size_t kCongestion = 4;  // FECN and BECN: switches set them
  if (key.headers.size() > kCongestion) key.headers[kCongestion] = 0;
  return key;
}

}  // namespace verbena::report
