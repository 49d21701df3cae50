#pragma once

// What the headers below RoCE's own look like: of IP and UDP.

#include <cstddef>
#include <cstdint>

namespace verbena::packet {

inline constexpr std::size_t kIpv4Size = 20;
inline constexpr std::size_t kIpv6Size = 40;
inline constexpr std::size_t kUdpSize = 8;
inline constexpr std::uint8_t kUdpProtocol = 17;
inline constexpr std::uint16_t kDontFragment = 0x4000;

}  // namespace verbena::packet
