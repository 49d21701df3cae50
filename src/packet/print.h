#pragma once

// Packets as people read them, in traces and in failing tests.

#include <string>
#include <string_view>

#include "packet/packet.h"

namespace verbena::packet {

/// One line without its end, e.g.
/// "RC WRITE first qp 0x000011 psn 0x001000 va 0x7f0000001000 rkey 0x00001234 len 9000 payload
/// 1024". What has its usual value (P_Key, no congestion marks) is left out.
[[nodiscard]] std::string text(const Packet& p);

/// "ack", "ack credits 5", "rnr nak timer 20", "nak remote access error".
[[nodiscard]] std::string text(Syndrome s);

[[nodiscard]] std::string_view text(NakCode code);
[[nodiscard]] std::string_view text(Selectivity selectivity);
[[nodiscard]] std::string_view text(Malformed reason);

}  // namespace verbena::packet
