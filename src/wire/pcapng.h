#pragma once

// The blocks of a pcapng file (draft-ietf-opsawg-pcapng), little-endian, and the packets in them:
// IP and UDP headers around a frame, as they were on the wire.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "packet/frame.h"

namespace verbena::wire::pcapng {

void append_section(std::string& to, std::string_view application);
/// Interfaces are numbered from 0 in the order of their blocks. Raw IP, time in nanoseconds.
void append_interface(std::string& to, std::string_view name);

enum class Direction : std::uint8_t { received = 1, sent = 2 };  // as in epb_flags

/// What the headers need beside a Datagram.
struct PacketInfo {
  std::uint32_t interface = 0;
  Direction direction = Direction::received;
  std::uint64_t time = 0;            // ns since 1970
  std::uint16_t identification = 0;  // IPv4
};
void append_packet(std::string& to, const PacketInfo& info, const packet::Datagram& d);

}  // namespace verbena::wire::pcapng
