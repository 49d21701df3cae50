#include "front/verbs/srq.h"

#include <fmt/format.h>

#include <memory>

#include "front/preload/real.h"
#include "front/verbs/context.h"
#include "front/verbs/cq.h"
#include "front/verbs/export.h"
#include "front/verbs/guarded.h"
#include "front/verbs/listed.h"
#include "front/verbs/nic.h"
#include "front/verbs/pd.h"
#include "front/verbs/xrcd.h"

namespace verbena::front {

namespace {

struct SrqRequest {
  ibv_pd* pd = nullptr;
  void* user = nullptr;
  ibv_xrcd* xrcd = nullptr;  // of XRC
  ibv_cq* cq = nullptr;      // of XRC
};

/// What was made is told in `attr`.
Result<ibv_srq*> create(const SrqRequest& request, ibv_srq_attr& attr) {
  const Pd& pd = pd_of(request.pd);
  if (!is_live(pd.nic)) return inherited("the protection domain");
  Cq* const cq = request.cq != nullptr ? &cq_of(request.cq) : nullptr;
  if (cq != nullptr && !is_live(cq->nic)) return inherited("the completion queue");
  Context& context = context_of(pd.context);

  auto srq = std::make_unique<Srq>();
  Listed listed{context.objects.srqs, srq.get()};
  srq->listener = context.events.get();
  const Result<host::SharedReceiveQueue*> queue = pd.nic->create_srq(
      {.pd = pd.id,
       .depth = attr.max_wr,
       .max_sge = attr.max_sge,
       .xrc_cq = cq != nullptr ? cq->queue : nullptr,
       .xrcd = request.xrcd != nullptr ? xrcd_of(request.xrcd).id : engine::XrcdId{}},
      srq.get());
  if (!queue) return queue.error();
  attr.max_wr = (*queue)->depth();
  attr.max_sge = (*queue)->max_sge();
  srq->context = pd.context;
  srq->srq_context = request.user;
  srq->pd = request.pd;
  srq->handle = (*queue)->number;
  pthread_mutex_init(&srq->mutex, nullptr);
  pthread_cond_init(&srq->cond, nullptr);
  srq->nic = pd.nic;
  srq->queue = *queue;
  srq->xrc_cq = cq;
  listed.keep();
  const auto lock = lock_lists();
  if (cq != nullptr) ++cq->users;
  return srq.release();
}

Result<ibv_srq*> create(const ibv_context* context, ibv_srq_init_attr_ex& attr) {
  constexpr std::uint32_t kXrc = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  constexpr std::uint32_t kKnownInit = kXrc | IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  const bool typed = (attr.comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0;
  const bool xrc = typed && attr.srq_type == IBV_SRQT_XRC;
  if (const std::uint32_t bits = attr.comp_mask & ~kKnownInit;
      bits != 0 || (typed && !xrc && attr.srq_type != IBV_SRQT_BASIC)) {
    return Error{EOPNOTSUPP, fmt::format("comp_mask {:#x}, type {}: tag matching is not supported",
                                         attr.comp_mask, typed ? int{attr.srq_type} : 0)};
  }
  const std::uint32_t needed = IBV_SRQ_INIT_ATTR_PD | (xrc ? kXrc : 0);
  if ((attr.comp_mask & needed) != needed) {
    return Error{EINVAL, fmt::format("comp_mask {:#x}: {:#x} is needed", attr.comp_mask, needed)};
  }
  if (attr.pd == nullptr) return Error{EINVAL, "pd is NULL"};
  SrqRequest request{.pd = attr.pd, .user = attr.srq_context};
  if (xrc) {
    if (attr.xrcd == nullptr || attr.cq == nullptr || attr.xrcd->context != context ||
        attr.cq->context != context) {
      return Error{EINVAL, "xrcd and cq must be of the same context"};
    }
    request.xrcd = attr.xrcd;
    request.cq = attr.cq;
  }
  return create(request, attr.attr);
}

Status modify(const Srq& srq, const ibv_srq_attr& attr, unsigned mask) {
  if (!is_live(srq.nic)) return inherited("the shared receive queue");
  if (const unsigned bits = mask & ~unsigned{IBV_SRQ_LIMIT}; bits != 0) {
    return Error{EINVAL, fmt::format("attr_mask {:#x}: only srq_limit can be changed; the queue "
                                     "can't be resized (no IBV_DEVICE_SRQ_RESIZE)",
                                     mask)};
  }
  if (mask == 0) return Ok{};
  return srq.nic->set_srq_limit(*srq.queue, attr.srq_limit);
}

}  // namespace

ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attr) {
  return guarded("ibv_create_srq_ex", [&] { return create(context, *attr); });
}

int get_srq_num(ibv_srq* srq, std::uint32_t* number) {
  const Srq& ours = srq_of(srq);
  if (ours.xrc_cq == nullptr) return EINVAL;  // only XRC queues have one
  *number = ours.handle;
  return 0;
}

Status destroy(Srq* srq, Unacked unacked) {
  if (is_live(srq->nic)) {
    const Result<unsigned> taken = srq->nic->destroy_srq(srq->queue);
    if (!taken) return taken.error();
    if (unacked == Unacked::awaited) await_acknowledgements(*srq, srq->events_completed, *taken);
  }
  {
    const auto lock = lock_lists();
    if (srq->xrc_cq != nullptr) --srq->xrc_cq->users;
    context_of(srq->context).objects.srqs.erase(srq);
  }
  pthread_cond_destroy(&srq->cond);
  pthread_mutex_destroy(&srq->mutex);
  delete srq;
  return Ok{};
}

}  // namespace verbena::front

using namespace verbena;
using namespace verbena::front;

VERBENA_EXPORT ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  if (!is_ours(pd)) return real::call<"ibv_create_srq", "IBVERBS_1.1">(ibv_create_srq, pd, attr);
  return guarded("ibv_create_srq",
                 [&] { return create({.pd = pd, .user = attr->srq_context}, attr->attr); });
}

VERBENA_EXPORT int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) {
  if (!is_ours(srq)) {
    return real::call<"ibv_modify_srq", "IBVERBS_1.1">(ibv_modify_srq, srq, attr, mask);
  }
  return guarded_status("ibv_modify_srq",
                        [&] { return modify(srq_of(srq), *attr, static_cast<unsigned>(mask)); });
}

VERBENA_EXPORT int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attr) {
  if (!is_ours(srq)) return real::call<"ibv_query_srq", "IBVERBS_1.1">(ibv_query_srq, srq, attr);
  return guarded_status("ibv_query_srq", [&]() -> Status {
    const Srq& ours = srq_of(srq);
    if (!is_live(ours.nic)) return inherited("the shared receive queue");
    *attr = {.max_wr = ours.queue->depth(),
             .max_sge = ours.queue->max_sge(),
             .srq_limit = ours.nic->srq_limit(*ours.queue)};
    return Ok{};
  });
}

VERBENA_EXPORT int ibv_destroy_srq(ibv_srq* srq) {
  if (!is_ours(srq)) return real::call<"ibv_destroy_srq", "IBVERBS_1.1">(ibv_destroy_srq, srq);
  return guarded_status("ibv_destroy_srq", [&] { return destroy(&srq_of(srq), Unacked::awaited); });
}
