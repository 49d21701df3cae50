#pragma once

#include <infiniband/verbs.h>

#include "base/result.h"
#include "host/nic.h"

namespace verbena::front {

struct Qp;

struct Flow : ibv_flow {
  host::Nic* nic = nullptr;
  host::FlowRules::Id id{};
  Qp* qp = nullptr;
};

ibv_flow* create_flow(ibv_qp* qp, ibv_flow_attr* attr);
int destroy_flow(ibv_flow* flow);

Status destroy(Flow* flow);

}  // namespace verbena::front
