#pragma once

#include <infiniband/verbs.h>

#include "base/result.h"
#include "front/verbs/acknowledge.h"
#include "host/nic.h"

namespace verbena::front {

struct Cq : ibv_cq {
  host::Nic* nic = nullptr;
  host::CompletionQueue* queue = nullptr;
  unsigned users = 0;  // queue pairs; under lock_lists()
};

/// Only of a queue of ours.
[[nodiscard]] inline Cq& cq_of(ibv_cq* cq) { return static_cast<Cq&>(*cq); }

/// EBUSY while a queue pair uses it.
Status destroy(Cq* cq, Unacked unacked);

}  // namespace verbena::front
