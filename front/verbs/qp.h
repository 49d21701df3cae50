#pragma once

#include <infiniband/verbs.h>

#include "base/result.h"
#include "front/verbs/acknowledge.h"
#include "host/nic.h"

namespace verbena::front {

struct Qp : ibv_qp {
  host::Nic* nic = nullptr;
  host::QueuePair* queues = nullptr;
  ibv_qp_cap cap{};
  bool signal_all = false;
};

/// Only of a queue pair of ours.
[[nodiscard]] inline Qp& qp_of(ibv_qp* qp) { return static_cast<Qp&>(*qp); }

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr);

Status destroy(Qp* qp, Unacked unacked);

/// The error with the queue pair's number in front, unless it has it.
[[nodiscard]] Status of_qp(std::uint32_t qpn, Status status);

}  // namespace verbena::front
