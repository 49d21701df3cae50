#pragma once

// Timewait: packets of an ended connection may still be on their way.

#include "base/time.h"
#include "cm/core.h"

namespace verbena::cm {

/// The peer's queue pair may serve another connection from now on.
void enter_timewait(Core& core, Connection& c, Instant now);
/// Timewait is over: tells the owner and forgets the connection.
void leave_timewait(Core& core, Connection& c);

}  // namespace verbena::cm
