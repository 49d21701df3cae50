#pragma once

#include "base/ip_address.h"
#include "base/result.h"

namespace verbena::host {

/// The address that packets to `destination` leave from. `interface` is the scope of a link-local
/// one. ENETUNREACH and its like.
[[nodiscard]] Result<IpAddress> source_address(const IpAddress& destination, unsigned interface);

}  // namespace verbena::host
