#pragma once

// Responders that acknowledge nothing: unreliable connections (IBA 9.8.2) and datagrams (9.8.3).

#include "engine/queue_pair.h"
#include "packet/frame.h"
#include "packet/packet.h"

namespace verbena::engine {

/// A packet for a UC queue pair. A message that is not whole is given up without a word; its
/// receive serves the next.
void handle_unreliable(Services& services, QueuePair& qp, const packet::Packet& p);

/// A datagram for a UD queue pair.
void handle_datagram(Services& services, QueuePair& qp, const packet::Datagram& datagram,
                     const packet::Packet& p);

}  // namespace verbena::engine
