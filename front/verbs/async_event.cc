// Asynchronous events: what no completion tells.

#include <exception>

#include "front/preload/real.h"
#include "front/verbs/acknowledge.h"
#include "front/verbs/context.h"
#include "front/verbs/cq.h"
#include "front/verbs/export.h"
#include "front/verbs/guarded.h"
#include "front/verbs/qp.h"
#include "front/verbs/srq.h"

namespace verbena::front {

namespace {

static_assert(static_cast<int>(engine::EventKind::sq_drained) == IBV_EVENT_SQ_DRAINED);
static_assert(static_cast<int>(engine::EventKind::srq_limit_reached) ==
              IBV_EVENT_SRQ_LIMIT_REACHED);
static_assert(static_cast<int>(engine::EventKind::last_wqe_reached) ==
              IBV_EVENT_QP_LAST_WQE_REACHED);
static_assert(static_cast<int>(host::PortEvent::device_fatal) == IBV_EVENT_DEVICE_FATAL);
static_assert(static_cast<int>(host::PortEvent::active) == IBV_EVENT_PORT_ACTIVE);
static_assert(static_cast<int>(host::PortEvent::error) == IBV_EVENT_PORT_ERR);
static_assert(static_cast<int>(host::PortEvent::gid_change) == IBV_EVENT_GID_CHANGE);

enum class About { cq, qp, srq, other };

About about(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_CQ_ERR:
      return About::cq;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return About::qp;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return About::srq;
    default:
      return About::other;
  }
}

ibv_async_event to_c(const host::AsyncEvent& event) {
  ibv_async_event to{};
  to.event_type = static_cast<ibv_event_type>(event.kind);
  switch (about(to.event_type)) {
    case About::cq:
      to.element.cq = to_c(static_cast<Cq*>(event.source));
      break;
    case About::qp:
      to.element.qp = &static_cast<Qp*>(event.source)->qp_base;
      break;
    case About::srq:
      to.element.srq = static_cast<Srq*>(event.source);
      break;
    case About::other:
      to.element.port_num = 1;
      break;
  }
  return to;
}

/// False: not about an object of ours. Events of a port name none, and need no acknowledgement.
bool acknowledged(const ibv_async_event& event) {
  switch (about(event.event_type)) {
    case About::cq:
      if (!is_ours(event.element.cq)) return false;
      acknowledge(*event.element.cq, event.element.cq->async_events_completed, 1);
      return true;
    case About::qp:
      if (!is_ours(event.element.qp)) return false;
      acknowledge(*event.element.qp, event.element.qp->events_completed, 1);
      return true;
    case About::srq:
      if (!is_ours(event.element.srq)) return false;
      acknowledge(*event.element.srq, event.element.srq->events_completed, 1);
      return true;
    case About::other:
      return false;
  }
  return false;
}

}  // namespace

}  // namespace verbena::front

using namespace verbena;
using namespace verbena::front;

VERBENA_EXPORT int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  if (!is_ours(context)) {
    return real::call<"ibv_get_async_event", "IBVERBS_1.1">(ibv_get_async_event, context, event);
  }
  // Threads that wait here are cancelled: no shield, and a cancellation passes through.
  try {
    const Result<host::AsyncEvent> taken = context_of(context).events->get();
    if (!taken) {  // EAGAIN and EINTR are everyday life: not for the log
      errno = taken.error().code;
      return -1;
    }
    *event = to_c(*taken);
    return 0;
  } catch (const std::exception&) {
    report_exception("ibv_get_async_event");
    return -1;
  }
}

VERBENA_EXPORT void ibv_ack_async_event(ibv_async_event* event) {
  if (acknowledged(*event)) return;
  real::call<"ibv_ack_async_event", "IBVERBS_1.1">(ibv_ack_async_event, event);
}
