#pragma once

// REJ: a request or a reply is refused or taken back.

#include <cstdint>
#include <span>

#include "base/result.h"
#include "cm/core.h"
#include "cm/parameters.h"
#include "packet/cm_rej.h"

namespace verbena::cm {

/// REJ on behalf of a connection.
OutgoingMad send_rej(Core& core, const Connection& c, packet::CmAnswered message,
                     packet::RejectReason reason, std::span<const std::uint8_t> info = {},
                     std::span<const std::uint8_t> private_data = {});
/// REJ of a message that belongs to no connection of ours.
void reject_message(Core& core, const Received& r, const packet::CmRej& rej);

/// The owner refuses a REQ or a REP.
[[nodiscard]] Status reject(Core& core, Connection& c, const RejectParameters& p);

void on_rej(Core& core, const Received& r, const packet::CmRej& m);

}  // namespace verbena::cm
