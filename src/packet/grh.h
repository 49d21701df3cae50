#pragma once

// The global route header as a UD receiver finds it in front of the payload.

#include <array>
#include <cstddef>
#include <cstdint>

#include "packet/frame.h"

namespace verbena::packet {

inline constexpr std::size_t kGrhSize = 40;
using Grh = std::array<std::uint8_t, kGrhSize>;

/// The IP header of a datagram in the form in which RoCEv2 delivers it (IBA annex A17.4.5.1):
/// an IPv6 header as it was, an IPv4 header (its checksum right) in the last 20 bytes behind
/// zeros. What a UDP socket doesn't show is 0: the flow label, the IPv4 identification.
[[nodiscard]] Grh grh_of(const Datagram& datagram);

}  // namespace verbena::packet
