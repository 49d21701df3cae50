#pragma once

#include <cstdint>
#include <span>

#include "base/ip_address.h"

namespace verbena::wire {

/// A frame that reached nobody, as the network says. Anybody can say so: what `bytes` holds is for
/// the reader to check.
struct Undelivered {
  IpAddress source{};  // ours
  IpAddress destination{};
  int code = 0;                           // errno: ECONNREFUSED, EHOSTUNREACH, ENETUNREACH
  std::span<const std::uint8_t> bytes{};  // of the frame, as far as they were quoted
};

}  // namespace verbena::wire
