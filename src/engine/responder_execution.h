#pragma once

// The responder of RC and XRC executes a request that was checked, or refuses it.

#include "engine/queue_pair.h"
#include "packet/aeth.h"
#include "packet/packet.h"

namespace verbena::engine {

void execute(Services& services, QueuePair& qp, const packet::Packet& p);

/// NAKs the request that is expected, and ends the queue pair.
void refuse(Services& services, QueuePair& qp, packet::Syndrome syndrome);

/// The memory for what a message brought so far is gone. Its newest packet is the one that gets
/// the NAK.
void refuse_unplaced(Services& services, QueuePair& qp);

}  // namespace verbena::engine
