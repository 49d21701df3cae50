#pragma once

// Raw packet queue pairs: messages are Ethernet frames as the program wrote them. No transport
// protocol, no peer; who gets which frame is decided before the engine sees it.

#include <cstdint>
#include <span>

#include "engine/queue_pair.h"
#include "engine/requester.h"
#include "packet/ethernet_sink.h"

namespace verbena::engine {

/// Sends what is posted, at most `budget` frames. nullptr: they leave by nobody, as with an
/// unplugged cable.
[[nodiscard]] Sent transmit_frames(Services& services, QueuePair& qp, packet::EthernetSink* sink,
                                   unsigned budget);

/// A frame for this queue pair, into its next receive.
void handle_frame(Services& services, QueuePair& qp, std::span<const std::uint8_t> frame);

}  // namespace verbena::engine
