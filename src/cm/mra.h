#pragma once

// MRA, "message receipt acknowledged": the message arrived, and the answer takes longer
// (IBA 12.6.6).

#include "cm/core.h"
#include "packet/cm_mra.h"

namespace verbena::cm {

/// The peer needs longer: the next retry waits for it.
void on_mra(Core& core, const Received& r, const packet::CmMra& m);

/// The owner hasn't answered the peer's REQ yet. From now on the peer retries less often, and so
/// for longer.
void send_mra_to_req(Core& core, Connection& c, Instant now);
/// The owner hasn't answered the peer's REP yet.
void send_mra_to_rep(Core& core, const Connection& c);

}  // namespace verbena::cm
