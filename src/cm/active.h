#pragma once

// The side that asks: REQ, then RTU.

#include "base/result.h"
#include "base/time.h"
#include "cm/core.h"
#include "cm/parameters.h"
#include "packet/cm_rep.h"

namespace verbena::cm {

[[nodiscard]] Result<ConnectionId> connect(Core& core, const ConnectParameters& p, Instant now);
void on_rep(Core& core, const Received& r, const packet::CmRep& m);
/// The REQ of `c` reached nobody, as the network says.
void request_undelivered(Core& core, Connection& c, const IncomingMad& mad, int code, Instant now);
[[nodiscard]] Status establish(Core& core, Connection& c, const PrivateData& private_data);

}  // namespace verbena::cm
