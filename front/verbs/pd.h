#pragma once

#include <infiniband/verbs.h>

#include "base/result.h"
#include "host/nic.h"

namespace verbena::front {

struct Pd : ibv_pd {
  host::Nic* nic = nullptr;
  engine::PdId id{};
  unsigned address_handles = 0;  // under lock_lists()
};

/// Only of a domain of ours.
[[nodiscard]] inline Pd& pd_of(ibv_pd* pd) { return static_cast<Pd&>(*pd); }

Status destroy(Pd* pd);

}  // namespace verbena::front
