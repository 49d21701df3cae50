#include "front/verbs/qp.h"

#include <fmt/format.h>

#include <memory>
#include <string_view>

#include "front/preload/real.h"
#include "front/verbs/context.h"
#include "front/verbs/cq.h"
#include "front/verbs/export.h"
#include "front/verbs/guarded.h"
#include "front/verbs/listed.h"
#include "front/verbs/nic.h"
#include "front/verbs/pd.h"
#include "front/verbs/qp_attributes.h"

namespace verbena::front {

namespace {

std::string_view name_of(ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_RC:
      return "RC";
    case IBV_QPT_UC:
      return "UC";
    case IBV_QPT_UD:
      return "UD";
    case IBV_QPT_RAW_PACKET:
      return "RAW_PACKET";
    case IBV_QPT_XRC_SEND:
      return "XRC_SEND";
    case IBV_QPT_XRC_RECV:
      return "XRC_RECV";
    case IBV_QPT_DRIVER:
      return "DRIVER";
  }
  return "unknown";
}

Status check_limit(std::string_view what, std::uint32_t asked, std::uint32_t limit) {
  if (asked <= limit) return Ok{};
  return Error{EINVAL, fmt::format("{} {} exceeds the device's {}", what, asked, limit)};
}

Status check(const ibv_pd* pd, const ibv_qp_init_attr& attr) {
  if (attr.qp_type != IBV_QPT_RC) {
    return Error{EOPNOTSUPP, fmt::format("queue pair type {} ({}) is not supported yet: RC is",
                                         name_of(attr.qp_type), int{attr.qp_type})};
  }
  if (attr.srq != nullptr) return Error{EOPNOTSUPP, "shared receive queues: not supported yet"};
  if (attr.send_cq == nullptr || attr.recv_cq == nullptr) {
    return Error{EINVAL, "needs a send_cq and a recv_cq"};
  }
  if (attr.send_cq->context != pd->context || attr.recv_cq->context != pd->context) {
    return Error{EINVAL, "a completion queue belongs to another context than the domain"};
  }
  using engine::Limits;
  const ibv_qp_cap& cap = attr.cap;
  for (const Status& s :
       {check_limit("max_send_wr", cap.max_send_wr, Limits::kMaxQueueDepth),
        check_limit("max_recv_wr", cap.max_recv_wr, Limits::kMaxQueueDepth),
        check_limit("max_send_sge", cap.max_send_sge, Limits::kMaxSge),
        check_limit("max_recv_sge", cap.max_recv_sge, Limits::kMaxSge),
        check_limit("max_inline_data", cap.max_inline_data, Limits::kMaxInline)}) {
    if (!s) return s;
  }
  return Ok{};
}

Result<ibv_qp*> create(ibv_pd* ibpd, ibv_qp_init_attr& attr) {
  const Pd& pd = pd_of(ibpd);
  if (const Status s = check(ibpd, attr); !s) return s.error();
  Cq& send_cq = cq_of(attr.send_cq);
  Cq& receive_cq = cq_of(attr.recv_cq);
  if (!is_live(pd.nic)) return inherited("the protection domain");
  if (!is_live(send_cq.nic) || !is_live(receive_cq.nic)) return inherited("a completion queue");

  auto qp = std::make_unique<Qp>();
  Listed listed{context_of(ibpd->context).objects.qps, qp.get()};
  const Result<engine::QueuePair*> pair =
      pd.nic->create_qp({.pd = pd.id,
                         .send_cq = &send_cq.queue->ring,
                         .receive_cq = &receive_cq.queue->ring,
                         .max_send = attr.cap.max_send_wr,
                         .max_receive = attr.cap.max_recv_wr,
                         .max_send_sge = attr.cap.max_send_sge,
                         .max_receive_sge = attr.cap.max_recv_sge,
                         .max_inline = attr.cap.max_inline_data,
                         .signal_all = attr.sq_sig_all != 0});
  if (!pair) return pair.error();
  attr.cap = {.max_send_wr = (*pair)->sq.depth(),
              .max_recv_wr = (*pair)->rq.depth(),
              .max_send_sge = (*pair)->sq.max_sge(),
              .max_recv_sge = (*pair)->rq.max_sge(),
              .max_inline_data = (*pair)->sq.max_inline()};
  qp->context = ibpd->context;
  qp->qp_context = attr.qp_context;
  qp->pd = ibpd;
  qp->send_cq = attr.send_cq;
  qp->recv_cq = attr.recv_cq;
  qp->qp_num = (*pair)->qpn.value();
  qp->handle = qp->qp_num;
  qp->state = IBV_QPS_RESET;
  qp->qp_type = attr.qp_type;
  pthread_mutex_init(&qp->mutex, nullptr);
  pthread_cond_init(&qp->cond, nullptr);
  qp->nic = pd.nic;
  qp->pair = *pair;
  qp->cap = attr.cap;
  qp->signal_all = attr.sq_sig_all != 0;
  listed.keep();
  const auto lock = lock_lists();
  ++send_cq.users;
  ++receive_cq.users;
  return qp.release();
}

/// The error with the queue pair's number in front, unless it has it.
Status of_qp(std::uint32_t qpn, Status status) {
  if (status || status.error().message.starts_with("qp ")) return status;
  return Error{status.error().code, fmt::format("qp {:#x}: {}", qpn, status.error().message)};
}

Status modify(Qp& qp, const ibv_qp_attr& attr, unsigned mask) {
  if (!is_live(qp.nic)) return inherited("the queue pair");
  const Context& context = context_of(qp.context);
  const Result<engine::QpAttributes> to = attributes_from_c(context, attr, mask);
  if (!to) return to.error();
  if (Status s = qp.nic->modify_qp(*qp.pair, context.device, *to, mask); !s) return s;
  if ((mask & IBV_QP_STATE) != 0) qp.state = attr.qp_state;
  return Ok{};
}

}  // namespace

Status destroy(Qp* qp) {
  if (is_live(qp->nic)) {
    if (Status s = qp->nic->destroy_qp(qp->pair); !s) return s;
  }
  {
    const auto lock = lock_lists();
    --cq_of(qp->send_cq).users;
    --cq_of(qp->recv_cq).users;
    context_of(qp->context).objects.qps.erase(qp);
  }
  pthread_cond_destroy(&qp->cond);
  pthread_mutex_destroy(&qp->mutex);
  delete qp;
  return Ok{};
}

}  // namespace verbena::front

using namespace verbena;
using namespace verbena::front;

VERBENA_EXPORT ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  if (!is_ours(pd)) return real::call<"ibv_create_qp", "IBVERBS_1.1">(ibv_create_qp, pd, attr);
  return guarded("ibv_create_qp", [&] { return create(pd, *attr); });
}

VERBENA_EXPORT int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask) {
  if (!is_ours(qp)) {
    return real::call<"ibv_modify_qp", "IBVERBS_1.1">(ibv_modify_qp, qp, attr, attr_mask);
  }
  return guarded_status("ibv_modify_qp", [&] {
    return of_qp(qp->qp_num, modify(qp_of(qp), *attr, static_cast<unsigned>(attr_mask)));
  });
}

VERBENA_EXPORT int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask,
                                ibv_qp_init_attr* init_attr) {
  if (!is_ours(qp)) {
    return real::call<"ibv_query_qp", "IBVERBS_1.1">(ibv_query_qp, qp, attr, attr_mask, init_attr);
  }
  return guarded_status("ibv_query_qp", [&]() -> Status {
    Qp& ours = qp_of(qp);
    if (!is_live(ours.nic)) return inherited("the queue pair");
    // The mask is a hint: everything is cheap to tell.
    *attr = attributes_to_c(ours.nic->query_qp(*ours.pair), ours.cap);
    qp->state = attr->qp_state;
    *init_attr = {.qp_context = qp->qp_context,
                  .send_cq = qp->send_cq,
                  .recv_cq = qp->recv_cq,
                  .srq = nullptr,
                  .cap = ours.cap,
                  .qp_type = qp->qp_type,
                  .sq_sig_all = ours.signal_all ? 1 : 0};
    return Ok{};
  });
}

VERBENA_EXPORT int ibv_destroy_qp(ibv_qp* qp) {
  if (!is_ours(qp)) return real::call<"ibv_destroy_qp", "IBVERBS_1.1">(ibv_destroy_qp, qp);
  return guarded_status("ibv_destroy_qp",
                        [&, qpn = qp->qp_num] { return of_qp(qpn, destroy(&qp_of(qp))); });
}
