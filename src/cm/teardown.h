#pragma once

// How connections end: REJ, DREQ and DREP, silence, and the owner's wish.

#include "base/result.h"
#include "base/time.h"
#include "cm/core.h"
#include "cm/parameters.h"
#include "packet/cm_drep.h"
#include "packet/cm_dreq.h"
#include "packet/cm_mra.h"
#include "packet/cm_rej.h"

namespace verbena::cm {

/// The connection that a message names by both ids, from its peer. nullptr: counted.
[[nodiscard]] Connection* find_for(Core& core, const Received& r, packet::CommId local_id,
                                   packet::CommId remote_id);

[[nodiscard]] Status reject(Core& core, Connection& c, const RejectParameters& p);
/// DREQ, or the DREP to the peer's.
[[nodiscard]] Status disconnect(Core& core, Connection& c, const PrivateData& private_data,
                                Instant now);
void destroy(Core& core, Connection& c, Instant now);
/// Its peer has forgotten it.
void drop_stale(Core& core, Connection& c, Instant now);

void on_rej(Core& core, const Received& r, const packet::CmRej& m);
void on_dreq(Core& core, const Received& r, const packet::CmDreq& m);
void on_drep(Core& core, const Received& r, const packet::CmDrep& m);
/// The answer takes longer.
void on_mra(Core& core, const Received& r, const packet::CmMra& m);
/// The DREQ of `c` reached nobody, as the network says: its peer was killed, most likely.
void goodbye_undelivered(Core& core, Connection& c, const IncomingMad& mad, Instant now);
/// The DREPs of late once more: who ends can't answer a DREQ that is repeated.
void answer_goodbyes_again(Core& core);
/// The connection's deadline has come.
void on_deadline(Core& core, Connection& c, Instant now);

}  // namespace verbena::cm
