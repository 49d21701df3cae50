#pragma once

// Reads recorded packets: the classic pcap format with Ethernet frames, as tcpdump writes it.

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ip_address.h"
#include "base/result.h"

namespace verbena::test {

/// A UDP datagram of a recording.
struct Captured {
  std::chrono::nanoseconds time{};  // since 1970
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  std::optional<std::uint16_t> identification;  // IPv4 only
  std::uint8_t traffic_class = 0;               // TOS of IPv4
  std::uint8_t hop_limit = 0;                   // TTL of IPv4
  std::vector<std::uint8_t> payload;
};

/// The UDP datagrams of a recording, in order; either byte order, micro- or nanoseconds.
/// Other protocols are left out; a datagram that was not recorded whole is an error.
[[nodiscard]] Result<std::vector<Captured>> read_pcap(std::span<const std::uint8_t> file);
[[nodiscard]] Result<std::vector<Captured>> read_pcap_file(const std::string& path);

}  // namespace verbena::test
