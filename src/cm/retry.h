#pragma once

// REQ, REP and DREQ are sent again until their answer comes. Core::send_and_wait() starts that,
// retry_schedule.h says when; this is what happens then.

#include "base/time.h"
#include "cm/core.h"

namespace verbena::cm {

/// The deadline of a pending message has come: sends it again, or gives up.
void retry_or_give_up(Core& core, Connection& c, Instant now);

/// No answer came: ends the connection and tells the owner.
void time_out(Core& core, Connection& c, Instant now);

/// REJ with reason "timeout" for a REQ or REP that was never answered: the peer may be there after
/// all.
void reject_for_timeout(Core& core, Connection& c);

}  // namespace verbena::cm
