#pragma once

#include "host/shard.h"

namespace verbena::host {

/// At the end of the process, which takes its NIC with it: sends what may be sent, and waits for
/// the frames that faults delay. A peer takes those to be on their way.
void drain(Shard& shard);

/// Before an end without exit handlers: peers learn of what the program was told.
void send_final_acknowledgements(Shard& shard);

/// After drain(): writes the end of the trace, and the statistics.
void write_reports(Shard& shard);

}  // namespace verbena::host
