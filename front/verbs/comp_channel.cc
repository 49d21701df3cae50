#include "front/verbs/comp_channel.h"

#include <fmt/format.h>

#include <exception>

#include "front/preload/real.h"
#include "front/verbs/context.h"
#include "front/verbs/cq.h"
#include "front/verbs/export.h"
#include "front/verbs/guarded.h"
#include "front/verbs/nic.h"

namespace verbena::front {

Status destroy(CompChannel* channel) {
  {
    const auto lock = lock_lists();
    if (channel->refcnt > 0) {
      return Error{EBUSY, fmt::format("{} completion queues still use it", channel->refcnt)};
    }
    context_of(channel->context).objects.channels.erase(channel);
  }
  if (host::Nic* const nic = live_nic.load()) nic->forget_channel(*channel->events);
  delete channel;
  return Ok{};
}

}  // namespace verbena::front

using namespace verbena;
using namespace verbena::front;

VERBENA_EXPORT ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  if (!is_ours(context)) {
    return real::call<"ibv_create_comp_channel", "IBVERBS_1.0">(ibv_create_comp_channel, context);
  }
  return guarded("ibv_create_comp_channel", [&]() -> Result<ibv_comp_channel*> {
    auto channel = std::make_unique<CompChannel>();
    const Result<host::CompletionChannel*> events = host::CompletionChannel::create();
    if (!events) return events.error();
    channel->events.reset(*events);
    channel->context = context;
    channel->fd = channel->events->fd();
    channel->refcnt = 0;
    const auto lock = lock_lists();
    context_of(context).objects.channels.insert(channel.get());
    return channel.release();
  });
}

VERBENA_EXPORT int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  if (!is_ours(channel)) {
    return real::call<"ibv_destroy_comp_channel", "IBVERBS_1.0">(ibv_destroy_comp_channel, channel);
  }
  return guarded_status("ibv_destroy_comp_channel", [&] { return destroy(&channel_of(channel)); });
}

VERBENA_EXPORT int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  if (!is_ours(channel)) {
    return real::call<"ibv_get_cq_event", "IBVERBS_1.1">(ibv_get_cq_event, channel, cq, cq_context);
  }
  // The one verb that programs cancel threads in: no shield, and a cancellation passes through.
  try {
    host::CompletionChannel& events = *channel_of(channel).events;
    host::Nic* const nic = live_nic.load(std::memory_order_relaxed);
    const Result<host::CompletionQueue*> event =
        nic != nullptr ? nic->get_event(events) : events.get();
    if (!event) {  // EAGAIN and EINTR are everyday life: not for the log
      errno = event.error().code;
      return -1;
    }
    Cq& taken = *static_cast<Cq*>((*event)->events);
    *cq = to_c(&taken);
    *cq_context = taken.cq_context;
    return 0;
  } catch (const std::exception&) {
    report_exception("ibv_get_cq_event");
    return -1;
  }
}
