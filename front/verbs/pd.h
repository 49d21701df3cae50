#pragma once

#include <infiniband/verbs.h>

#include "base/result.h"
#include "host/nic.h"

namespace verbena::front {

struct Pd : ibv_pd {
  host::Nic* nic = nullptr;
  engine::PdId id{};
  unsigned address_handles = 0;  // under lock_lists()
  unsigned parents = 0;          // parent domains over it; under lock_lists()
  Pd* below = nullptr;           // of a parent domain: what it stands for
  ibv_td* td = nullptr;          // of a parent domain; may be nullptr
};

/// Only of a domain of ours.
[[nodiscard]] inline Pd& pd_of(ibv_pd* pd) { return static_cast<Pd&>(*pd); }

/// EBUSY while anything is in it.
Status destroy(Pd* pd);
/// Forgets it, and leaves what it stands for alone.
void forget(Pd* pd);

/// A further handle of the same domain. On its context's list.
[[nodiscard]] Result<Pd*> alias(ibv_context* context, const Pd& of);

}  // namespace verbena::front
