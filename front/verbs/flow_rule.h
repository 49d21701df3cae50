#pragma once

// ibv_flow_attr and the specifications behind it, as a rule of the host's.

#include <infiniband/verbs.h>

#include "base/result.h"
#include "host/raw_packets/flow_rules.h"

namespace verbena::front {

/// EINVAL: it contradicts itself or ibv_create_flow(3). EOPNOTSUPP: something that other devices
/// can and this one can't.
[[nodiscard]] Result<host::FlowRule> rule_from_c(const ibv_flow_attr& attr);

}  // namespace verbena::front
