#pragma once

#include <infiniband/verbs.h>

#include "base/result.h"
#include "host/nic.h"

namespace verbena::front {

struct Qp : ibv_qp {
  host::Nic* nic = nullptr;
  engine::QueuePair* pair = nullptr;
  ibv_qp_cap cap{};
  bool signal_all = false;
};

/// Only of a queue pair of ours.
[[nodiscard]] inline Qp& qp_of(ibv_qp* qp) { return static_cast<Qp&>(*qp); }

Status destroy(Qp* qp);

}  // namespace verbena::front
