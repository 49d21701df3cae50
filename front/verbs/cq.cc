#include "front/verbs/cq.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "front/preload/real.h"
#include "front/verbs/comp_channel.h"
#include "front/verbs/context.h"
#include "front/verbs/export.h"
#include "front/verbs/guarded.h"
#include "front/verbs/listed.h"
#include "front/verbs/nic.h"

namespace verbena::front {

Result<Cq*> create_cq(ibv_context* context, const CqInit& init) {
  if (init.entries < 1 || init.entries > engine::Limits::kMaxCompletions) {
    return Error{EINVAL, fmt::format("cqe {}: must be between 1 and {}", init.entries,
                                     engine::Limits::kMaxCompletions)};
  }
  if (init.vector >= static_cast<std::uint32_t>(context->num_comp_vectors)) {
    return Error{EINVAL, fmt::format("comp_vector {}: must be below num_comp_vectors {}",
                                     init.vector, context->num_comp_vectors)};
  }
  if (init.channel != nullptr && init.channel->context != context) {
    return Error{EINVAL, "the completion channel belongs to another context"};
  }
  const Result<host::Nic*> nic = start_nic();
  if (!nic) return nic.error();

  auto cq = std::make_unique<Cq>();
  Listed listed{context_of(context).objects.cqs, cq.get()};
  host::CompletionChannel* const events =
      init.channel != nullptr ? channel_of(init.channel).events.get() : nullptr;
  cq->listener = context_of(context).events.get();
  const Result<host::CompletionQueue*> queue =
      (*nic)->create_cq(init.entries, events, cq.get(), init.overrun);
  if (!queue) return queue.error();
  cq->context = context;
  cq->channel = init.channel;
  cq->cq_context = init.user;
  cq->cqe = static_cast<int>((*queue)->capacity());
  pthread_mutex_init(&cq->mutex, nullptr);
  pthread_cond_init(&cq->cond, nullptr);
  cq->nic = *nic;
  cq->queue = *queue;
  listed.keep();
  const auto lock = lock_lists();
  if (init.channel != nullptr) ++init.channel->refcnt;
  return cq.release();
}

int modify_cq(ibv_cq* ibcq, ibv_modify_cq_attr* attr) {
  return guarded_status("ibv_modify_cq", [&]() -> Status {
    const Cq& cq = cq_of(ibcq);
    if (!is_live(cq.nic)) return inherited("the completion queue");
    if (attr->attr_mask != IBV_CQ_ATTR_MODERATE) {
      return Error{EINVAL, fmt::format("attr_mask {:#x}: must be IBV_CQ_ATTR_MODERATE ({:#x})",
                                       attr->attr_mask, int{IBV_CQ_ATTR_MODERATE})};
    }
    cq.nic->moderate_cq(*cq.queue, attr->moderate.cq_count,
                        std::chrono::microseconds{attr->moderate.cq_period});
    return Ok{};
  });
}

Status destroy(Cq* cq, Unacked unacked) {
  {
    const auto lock = lock_lists();
    if (cq->users > 0) {
      return Error{EBUSY, fmt::format("{} queues of queue pairs still complete to it", cq->users)};
    }
  }
  if (is_live(cq->nic)) {
    const auto taken = cq->nic->stop_events(*cq->queue);
    if (unacked == Unacked::awaited) {
      await_acknowledgements(*cq, cq->comp_events_completed, taken.completions);
      await_acknowledgements(*cq, cq->async_events_completed, taken.asynchronous);
    }
    if (Status s = cq->nic->destroy_cq(cq->queue); !s) return s;
  }
  {
    const auto lock = lock_lists();
    if (cq->channel != nullptr) --cq->channel->refcnt;
    context_of(cq->context).objects.cqs.erase(cq);
  }
  pthread_cond_destroy(&cq->cond);
  pthread_mutex_destroy(&cq->mutex);
  delete cq;
  return Ok{};
}

}  // namespace verbena::front

using namespace verbena;
using namespace verbena::front;

VERBENA_EXPORT ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context,
                                     ibv_comp_channel* channel, int comp_vector) {
  if (!is_ours(context)) {
    return real::call<"ibv_create_cq", "IBVERBS_1.1">(ibv_create_cq, context, cqe, cq_context,
                                                      channel, comp_vector);
  }
  return guarded("ibv_create_cq", [&]() -> Result<ibv_cq*> {
    // Negative numbers become too large ones.
    const Result<Cq*> cq = create_cq(context, {.entries = static_cast<std::uint32_t>(cqe),
                                               .user = cq_context,
                                               .channel = channel,
                                               .vector = static_cast<std::uint32_t>(comp_vector)});
    if (!cq) return cq.error();
    return to_c(*cq);
  });
}

VERBENA_EXPORT int ibv_destroy_cq(ibv_cq* cq) {
  if (!is_ours(cq)) return real::call<"ibv_destroy_cq", "IBVERBS_1.1">(ibv_destroy_cq, cq);
  return guarded_status("ibv_destroy_cq", [&] { return destroy(&cq_of(cq), Unacked::awaited); });
}

VERBENA_EXPORT void ibv_ack_cq_events(ibv_cq* cq, unsigned nevents) {
  if (!is_ours(cq)) {
    real::call<"ibv_ack_cq_events", "IBVERBS_1.1">(ibv_ack_cq_events, cq, nevents);
    return;
  }
  acknowledge(*cq, cq->comp_events_completed, nevents);
}

VERBENA_EXPORT int ibv_resize_cq(ibv_cq* cq, int cqe) {
  if (!is_ours(cq)) return real::call<"ibv_resize_cq", "IBVERBS_1.1">(ibv_resize_cq, cq, cqe);
  return guarded_status("ibv_resize_cq", [&]() -> Status {
    const Cq& ours = cq_of(cq);
    if (!is_live(ours.nic)) return inherited("the completion queue");
    if (cqe < 1) return Error{EINVAL, fmt::format("cqe {}: must be at least 1", cqe)};
    if (Status s = ours.nic->resize_cq(*ours.queue, static_cast<std::uint32_t>(cqe)); !s) return s;
    cq->cqe = cqe;
    return Ok{};
  });
}
