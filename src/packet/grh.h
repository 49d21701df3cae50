#pragma once

// The global route header as a UD receiver finds it in front of the payload.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "packet/frame.h"

namespace verbena::packet {

inline constexpr std::size_t kGrhSize = 40;
using Grh = std::array<std::uint8_t, kGrhSize>;

/// The IP header of a datagram in the form in which RoCEv2 delivers it (IBA annex A17.4.5.1):
/// an IPv6 header as it was, an IPv4 header (its checksum right) in the last 20 bytes behind
/// zeros. What a UDP socket doesn't show is 0: the flow label, the IPv4 identification.
[[nodiscard]] Grh grh_of(const Datagram& datagram);

/// What an answer needs of a GRH.
struct GrhHeader {
  IpAddress source;
  IpAddress destination;
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;
};

/// nullopt: neither of the two forms. An IPv4 header's checksum must be right, which tells it
/// from an IPv6 header whose addresses happen to look like one.
[[nodiscard]] std::optional<GrhHeader> read_grh(const Grh& grh);

}  // namespace verbena::packet
