#pragma once

// The process at the other end of a connection was on this host, and was killed: what it had said
// is known, and it will say nothing more.

#include "base/time.h"
#include "cm/connection_record.h"
#include "cm/core.h"

namespace verbena::cm {

/// The connection whose other end `record` describes, if that process could have sent a DREQ for it
/// now. nullptr: there is none.
[[nodiscard]] Connection* find_peer_of(const Core& core, const ConnectionRecord& record);

/// Ends it as a DREQ would, but the owner's answer isn't sent.
void peer_died(Core& core, Connection& c, Instant now);

}  // namespace verbena::cm
