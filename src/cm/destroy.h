#pragma once

#include "base/time.h"
#include "cm/core.h"

namespace verbena::cm {

/// The owner gives up the connection, in any state. The peer is told what the state calls for.
void destroy(Core& core, Connection& c, Instant now);

}  // namespace verbena::cm
