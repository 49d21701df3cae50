#pragma once

#include <infiniband/verbs.h>

#include "base/result.h"
#include "front/verbs/acknowledge.h"
#include "host/nic.h"

namespace verbena::front {

struct Cq;

struct Srq : ibv_srq, host::EventSource {
  host::Nic* nic = nullptr;
  host::SharedReceiveQueue* queue = nullptr;
  Cq* xrc_cq = nullptr;  // of XRC
};

/// Only of a queue of ours.
[[nodiscard]] inline Srq& srq_of(ibv_srq* srq) { return static_cast<Srq&>(*srq); }

ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attr);
int get_srq_num(ibv_srq* srq, std::uint32_t* number);

/// EBUSY while queue pairs use it.
Status destroy(Srq* srq, Unacked unacked);

}  // namespace verbena::front
