#pragma once

// The invariant CRC of RoCEv2 (IBA annex A17.3.3): CRC-32 over the fields that no router
// changes. A UDP socket doesn't show the IPv4 identification of a packet that it received,
// but the CRC covers it; recover_identification() solves for it instead.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/ip_address.h"

namespace verbena::packet {

/// The IP and UDP fields that the ICRC covers.
struct IcrcHeaders {
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  std::uint16_t identification = 0;  // IPv4 only
};

/// `frame` is BTH … pad, without the ICRC. The result is stored little-endian behind it.
/// IPv4 headers have no options and DF set.
[[nodiscard]] std::uint32_t icrc(const IcrcHeaders& headers, std::span<const std::uint8_t> frame);

/// Reads and writes the four bytes behind a frame.
[[nodiscard]] std::uint32_t load_icrc(const std::uint8_t* p);
void store_icrc(std::uint8_t* p, std::uint32_t value);

/// The IPv4 identification for which `received` is the right ICRC, or nullopt when there is
/// none: the packet is damaged. `headers.identification` is where to look first: any other takes
/// longer. IPv6 hides nothing: 0 when the ICRC is right, else nullopt.
[[nodiscard]] std::optional<std::uint16_t> recover_identification(
    const IcrcHeaders& headers, std::span<const std::uint8_t> frame, std::uint32_t received);

}  // namespace verbena::packet
