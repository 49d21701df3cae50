#include "front/verbs/flow.h"

#include <fmt/format.h>

#include <cerrno>
#include <memory>

#include "front/verbs/context.h"
#include "front/verbs/flow_rule.h"
#include "front/verbs/guarded.h"
#include "front/verbs/listed.h"
#include "front/verbs/nic.h"
#include "front/verbs/qp.h"

namespace verbena::front {

namespace {

Result<Flow*> create(Qp& qp, const ibv_flow_attr& attr) {
  Context& context = context_of(qp.qp_base.context);
  if (!is_live(qp.nic)) return inherited("the queue pair");
  // As the kernel has it: UD could be steered, others couldn't.
  if (qp.qp_base.qp_type == IBV_QPT_UD) {
    return Error{EOPNOTSUPP, "flows of UD queue pairs are not supported; use RAW_PACKET"};
  }
  if (qp.qp_base.qp_type != IBV_QPT_RAW_PACKET) {
    return Error{EINVAL, fmt::format("queue pair type {}: must be IBV_QPT_RAW_PACKET ({})",
                                     int{qp.qp_base.qp_type}, int{IBV_QPT_RAW_PACKET})};
  }
  if (const Status s = check_port(context, attr.port); !s) return s.error();
  Result<host::FlowRule> rule = rule_from_c(attr);
  if (!rule) return rule.error();
  auto flow = std::make_unique<Flow>();
  Listed listed{context.objects.flows, flow.get()};
  const auto id = qp.nic->create_flow(*qp.pair, std::move(rule).value());
  if (!id) return id.error();
  flow->context = qp.qp_base.context;
  flow->handle = *id;
  flow->nic = qp.nic;
  flow->id = *id;
  flow->qp = &qp;
  listed.keep();
  return flow.release();
}

}  // namespace

Status destroy(Flow* flow) {
  if (is_live(flow->nic)) {
    if (Status s = flow->nic->destroy_flow(*flow->qp->pair, flow->id); !s) return s;
  }
  {
    const auto lock = lock_lists();
    context_of(flow->context).objects.flows.erase(flow);
  }
  delete flow;
  return Ok{};
}

ibv_flow* create_flow(ibv_qp* qp, ibv_flow_attr* attr) {
  return guarded("ibv_create_flow", [&]() -> Result<ibv_flow*> {
    const Result<Flow*> flow = create(qp_of(qp), *attr);
    if (!flow) return of_qp(qp->qp_num, flow.error()).error();
    return static_cast<ibv_flow*>(*flow);
  });
}

int destroy_flow(ibv_flow* flow) {
  return guarded_status("ibv_destroy_flow", [&] { return destroy(static_cast<Flow*>(flow)); });
}

}  // namespace verbena::front
