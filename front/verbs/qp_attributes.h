#pragma once

// ibv_qp_attr and the engine's attributes: one to the other.

#include <infiniband/verbs.h>

#include "base/result.h"
#include "front/verbs/context.h"
#include "host/nic.h"

namespace verbena::front {

/// Only what `mask` names is looked at. EINVAL for values that no queue pair of this device
/// can have; whether the transition is legal is the engine's to say.
Result<engine::QpAttributes> attributes_from_c(const Context& context, const ibv_qp_attr& from,
                                               unsigned mask);

[[nodiscard]] engine::AddressVector path_from_c(const ibv_ah_attr& from);

[[nodiscard]] ibv_qp_attr attributes_to_c(const engine::QpAttributes& from, const ibv_qp_cap& cap);

/// 256 … 4096 bytes, a power of two.
[[nodiscard]] ibv_mtu mtu_to_c(std::uint16_t bytes);

}  // namespace verbena::front
