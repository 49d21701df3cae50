// Asynchronous events. Nothing raises one yet: whoever waits, waits; the descriptor is there
// to be polled, and to be made non-blocking.

#include <unistd.h>

#include <cstdint>

#include "front/preload/real.h"
#include "front/verbs/context.h"
#include "front/verbs/export.h"

using namespace verbena::front;

namespace {

/// False for the events that name no object of ours. Those of a port name no object at all,
/// and need no acknowledgement.
bool names_ours(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return is_ours(event.element.cq);
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return is_ours(event.element.qp);
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return is_ours(event.element.srq);
    default:
      return false;
  }
}

}  // namespace

VERBENA_EXPORT int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  if (!is_ours(context)) {
    return real::call<"ibv_get_async_event", "IBVERBS_1.1">(ibv_get_async_event, context, event);
  }
  std::uint64_t count = 0;
  if (read(context->async_fd, &count, sizeof count) < 0) return -1;  // EAGAIN, EINTR
  errno = EIO;
  return -1;
}

VERBENA_EXPORT void ibv_ack_async_event(ibv_async_event* event) {
  if (names_ours(*event)) return;
  real::call<"ibv_ack_async_event", "IBVERBS_1.1">(ibv_ack_async_event, event);
}
