#pragma once

// The active side: sends REQ, receives REP, sends RTU. Retries of the REQ: retry.h.

#include "base/result.h"
#include "base/time.h"
#include "cm/core.h"
#include "cm/parameters.h"
#include "packet/cm_rep.h"

namespace verbena::cm {

[[nodiscard]] Result<ConnectionId> connect(Core& core, const ConnectParameters& p, Instant now);
void on_rep(Core& core, const Received& r, const packet::CmRep& m);
[[nodiscard]] Status establish(Core& core, Connection& c, const PrivateData& private_data);

}  // namespace verbena::cm
