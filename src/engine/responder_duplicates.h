#pragma once

#include "engine/queue_pair.h"
#include "packet/packet.h"

namespace verbena::engine {

/// C9-105 ff.: what was executed is acknowledged again, never executed again; a READ is read
/// again, from where asked; an atomic gets the answer that was saved.
void handle_duplicate(Services& services, QueuePair& qp, const packet::Packet& p);

}  // namespace verbena::engine
