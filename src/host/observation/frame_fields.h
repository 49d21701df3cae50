#pragma once

// What a line of the trace says of a frame: fields of a JSON object, each behind a comma.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/ip_address.h"
#include "base/numbers.h"
#include "packet/packet.h"

namespace verbena::host {

/// With its quotes, as Wireshark shows it: "0x0001a2".
[[nodiscard]] std::string quoted(Qpn qpn);
/// As GIDs are written: IPv4 addresses are mapped ones.
[[nodiscard]] std::string gid_text(const IpAddress& address);
[[nodiscard]] std::string hex(std::span<const std::uint8_t> bytes);
/// BTH and extensions, without payload and ICRC.
[[nodiscard]] std::string hex_of_headers(const packet::Packet& p);

/// destination_qp, opcode, psn, bytes, ack_request; syndrome and msn where there is an AETH.
/// `payload`: bytes.
[[nodiscard]] std::string packet_fields(const packet::Packet& p, std::size_t payload);

/// Of a frame that may be anything, as far as it can be read: destination_qp, opcode, psn, bytes,
/// headers.
[[nodiscard]] std::string frame_fields(std::span<const std::uint8_t> frame);

/// Between which ends a management datagram goes.
struct MessageEnds {
  IpAddress local;
  IpAddress remote;
  Qpn qpn;  // the peer's
};

/// cm, local, peer, peer_qp, headers: those of a management datagram, and the datagram.
[[nodiscard]] std::string message_fields(const packet::Packet& p, const MessageEnds& ends);

}  // namespace verbena::host
