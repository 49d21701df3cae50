#pragma once

// DREQ and DREP.

#include "base/result.h"
#include "base/time.h"
#include "cm/core.h"
#include "cm/parameters.h"
#include "packet/cm_drep.h"
#include "packet/cm_dreq.h"

namespace verbena::cm {

/// The owner disconnects: DREQ, or the DREP to the peer's DREQ.
[[nodiscard]] Status disconnect(Core& core, Connection& c, const PrivateData& private_data,
                                Instant now);

void on_dreq(Core& core, const Received& r, const packet::CmDreq& m);
void on_drep(Core& core, const Received& r, const packet::CmDrep& m);

void send_dreq(Core& core, Connection& c, const PrivateData& private_data, Instant now);
void send_drep(Core& core, const Connection& c, const PrivateData& private_data = {});

/// The peer's queue pair asks for another connection, so it has forgotten this one.
void disconnect_stale(Core& core, Connection& c, Instant now);
/// Sends recent DREPs once more: after the process has ended, nobody answers a retried DREQ.
void resend_dreps(Core& core);

}  // namespace verbena::cm
