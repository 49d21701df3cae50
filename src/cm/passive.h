#pragma once

// The passive side: receives REQ, sends REP, receives RTU. Retries of the REP: retry.h.

#include "base/result.h"
#include "base/time.h"
#include "cm/core.h"
#include "cm/parameters.h"
#include "packet/cm_req.h"
#include "packet/cm_rtu.h"

namespace verbena::cm {

void on_req(Core& core, const Received& r, const packet::CmReq& m);
[[nodiscard]] Status accept(Core& core, Connection& c, const AcceptParameters& p, Instant now);
void on_rtu(Core& core, const Received& r, const packet::CmRtu& m);
/// The queue pair received something, which is as good as a RTU.
[[nodiscard]] Status notify_established(Core& core, Connection& c);

}  // namespace verbena::cm
