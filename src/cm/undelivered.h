#pragma once

// The network reports that a REQ or DREQ was not delivered (ICMP). undelivered_backoff.h says how
// far such a report is believed. SIDR_REQ: sidr.cc.

#include "base/time.h"
#include "cm/core.h"
#include "cm/route.h"

namespace verbena::cm {

/// `mad` is what the network returned, `code` the errno of its report.
void req_undelivered(Core& core, Connection& c, const IncomingMad& mad, int code, Instant now);
/// The peer's process was killed, most likely.
void dreq_undelivered(Core& core, Connection& c, const IncomingMad& mad, Instant now);

}  // namespace verbena::cm
