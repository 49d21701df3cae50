#pragma once

#include <infiniband/verbs.h>

#include "base/result.h"
#include "host/nic.h"

namespace verbena::front {

struct Ah : ibv_ah {
  host::Nic* nic = nullptr;
  packet::Flow flow;
};

/// Only of a handle of ours.
[[nodiscard]] inline const Ah& ah_of(const ibv_ah* ah) { return static_cast<const Ah&>(*ah); }

Status destroy(Ah* ah);

}  // namespace verbena::front
