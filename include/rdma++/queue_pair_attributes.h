// What each state change of a queue pair wants to know.
//
//   RESET --to_init--> INIT --to_rtr--> RTR --to_rts--> RTS        any --to_error--> ERR
//           port,            the peer        our own               any --to_reset--> RESET
//           rights           and its PSN     PSN, timers
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "rdma++/access.h"
#include "rdma++/conn_info.h"

namespace rdma {

/// RESET to INIT: receives may be posted from here on.
struct InitAttributes {
  std::uint8_t port = 1;
  std::uint16_t pkey_index = 0;
  Access access = Access::remote;  ///< what peers may do at most; the region decides further
  std::uint32_t qkey = 0;          ///< UD: messages must carry it

  [[nodiscard]] ibv_qp_attr attributes() const {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = port;
    attr.pkey_index = pkey_index;
    attr.qp_access_flags = static_cast<unsigned>(access);
    attr.qkey = qkey;
    return attr;
  }
  [[nodiscard]] static int mask(ibv_qp_type type) {
    return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
           (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
  }
};

/// The way to a peer.
struct Path {
  Gid gid{};              ///< of the peer
  std::uint16_t lid = 0;  ///< of the peer, on InfiniBand
  int gid_index = 0;      ///< our own row of the GID table
  std::uint8_t port = 1;  ///< our own
  std::uint8_t sl = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint32_t flow_label = 0;

  [[nodiscard]] ibv_ah_attr attributes() const {
    ibv_ah_attr attr{};
    attr.is_global = gid.is_zero() ? 0 : 1;
    attr.grh.dgid = gid.raw();
    attr.grh.sgid_index = static_cast<std::uint8_t>(gid_index);
    attr.grh.hop_limit = hop_limit;
    attr.grh.traffic_class = traffic_class;
    attr.grh.flow_label = flow_label;
    attr.dlid = lid;
    attr.sl = sl;
    attr.port_num = port;
    return attr;
  }
};

/// INIT to RTR: packets of the peer are taken from here on.
struct RtrAttributes {
  Path path{};
  std::uint32_t qpn = 0;  ///< the peer's
  std::uint32_t psn = 0;  ///< of the first packet from the peer
  ibv_mtu mtu = IBV_MTU_1024;
  std::uint8_t max_dest_rd_atomic = 16;  ///< READs and atomics that the peer may have open here
  std::uint8_t min_rnr_timer = 7;        ///< 7: a peer that finds no receive waits 0.12 ms

  [[nodiscard]] ibv_qp_attr attributes() const {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.ah_attr = path.attributes();
    attr.dest_qp_num = qpn;
    attr.rq_psn = psn;
    attr.path_mtu = mtu;
    attr.max_dest_rd_atomic = max_dest_rd_atomic;
    attr.min_rnr_timer = min_rnr_timer;
    return attr;
  }
  [[nodiscard]] static int mask(ibv_qp_type type) {
    if (type == IBV_QPT_UD) return IBV_QP_STATE;
    const int connected =
        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV) {
      return connected | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    }
    return connected;
  }
};

/// RTR to RTS: sends go out from here on.
struct RtsAttributes {
  std::uint32_t psn = 0;            ///< of our first packet
  std::uint8_t timeout = 14;        ///< 4.096 µs * 2^14 = 67 ms until a retry
  std::uint8_t retry_count = 7;     ///< then RETRY_EXC_ERR
  std::uint8_t rnr_retry = 7;       ///< 7: for ever; else RNR_RETRY_EXC_ERR
  std::uint8_t max_rd_atomic = 16;  ///< READs and atomics that we have open at most

  [[nodiscard]] ibv_qp_attr attributes() const {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = psn;
    attr.timeout = timeout;
    attr.retry_cnt = retry_count;
    attr.rnr_retry = rnr_retry;
    attr.max_rd_atomic = max_rd_atomic;
    return attr;
  }
  [[nodiscard]] static int mask(ibv_qp_type type) {
    const int any = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if (type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND) {
      return any | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    }
    return type == IBV_QPT_XRC_RECV ? any | IBV_QP_TIMEOUT : any;
  }
};

}  // namespace rdma
