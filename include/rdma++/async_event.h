// What a device tells that no completion does.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

#include "rdma++/text.h"

namespace rdma {

/// A copy of the event; it is acknowledged already, so it holds up nobody's destruction.
struct AsyncEvent {
  ibv_event_type type{};
  std::uint32_t qp_num = 0;     ///< of a queue pair's event
  int port = 0;                 ///< of a port's event
  const void* object = nullptr; /**< the ibv_qp, ibv_cq or ibv_srq: to compare with raw(), not to
                                     be followed */

  [[nodiscard]] std::string to_string() const {
    if (qp_num != 0) return concat(ibv_event_type_str(type), ", qp ", hex(qp_num));
    if (port != 0) return concat(ibv_event_type_str(type), ", port ", port);
    return ibv_event_type_str(type);
  }

  [[nodiscard]] static AsyncEvent from(const ibv_async_event& raw) {
    AsyncEvent event{.type = raw.event_type};
    switch (raw.event_type) {
      case IBV_EVENT_CQ_ERR:
        event.object = raw.element.cq;
        break;
      case IBV_EVENT_SRQ_ERR:
      case IBV_EVENT_SRQ_LIMIT_REACHED:
        event.object = raw.element.srq;
        break;
      case IBV_EVENT_WQ_FATAL:
        event.object = raw.element.wq;
        break;
      case IBV_EVENT_QP_FATAL:
      case IBV_EVENT_QP_REQ_ERR:
      case IBV_EVENT_QP_ACCESS_ERR:
      case IBV_EVENT_COMM_EST:
      case IBV_EVENT_SQ_DRAINED:
      case IBV_EVENT_PATH_MIG:
      case IBV_EVENT_PATH_MIG_ERR:
      case IBV_EVENT_QP_LAST_WQE_REACHED:
        event.object = raw.element.qp;
        event.qp_num = raw.element.qp->qp_num;
        break;
      case IBV_EVENT_DEVICE_FATAL:
        break;
      default:  // the others are a port's
        event.port = raw.element.port_num;
    }
    return event;
  }
};

}  // namespace rdma
