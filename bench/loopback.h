#pragma once

// RC queue pairs between 127.0.0.1 and itself, on plain verbs: set-up that the clients of this
// folder share.

#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace loopback {

[[noreturn]] inline void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

inline ibv_context* open_device() {
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  for (int i = 0; i < count; ++i) {
    if (std::string_view{ibv_get_device_name(list[i])} == "vb_lo") return ibv_open_device(list[i]);
  }
  errno = ENODEV;
  fail("there is no vb_lo: use verbena run");
  ;
}

/// The index of 127.0.0.1 in the GID table.
inline int own_gid(ibv_context* context, ibv_gid& gid) {
  constexpr std::uint8_t kWanted[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
  for (int i = 0; ibv_query_gid(context, 1, i, &gid) == 0; ++i) {
    if (std::memcmp(gid.raw, kWanted, sizeof kWanted) == 0) return i;
  }
  fail("127.0.0.1 is not in the GID table");
}

/// From RESET to RTS. `timeout` is the transport's: 4.096 µs × 2^timeout.
inline void connect(ibv_context* context, ibv_qp* qp, std::uint32_t peer, std::uint8_t timeout) {
  ibv_device_attr device{};
  if (ibv_query_device(context, &device) != 0) fail("ibv_query_device");
  const auto reads =
      static_cast<std::uint8_t>(std::clamp(device.max_qp_rd_atom, 1, 255));  // outstanding
  ibv_qp_attr init{};
  init.qp_state = IBV_QPS_INIT;
  init.port_num = 1;
  init.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  if (ibv_modify_qp(qp, &init,
                    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0) {
    fail("ibv_modify_qp to INIT");
  }
  ibv_qp_attr rtr{};
  rtr.qp_state = IBV_QPS_RTR;
  rtr.path_mtu = IBV_MTU_4096;
  rtr.dest_qp_num = peer;
  rtr.rq_psn = 1;
  rtr.max_dest_rd_atomic = reads;
  rtr.min_rnr_timer = 12;
  rtr.ah_attr.is_global = 1;
  rtr.ah_attr.port_num = 1;
  rtr.ah_attr.grh.hop_limit = 1;
  rtr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(own_gid(context, rtr.ah_attr.grh.dgid));
  if (ibv_modify_qp(qp, &rtr,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0) {
    fail("ibv_modify_qp to RTR");
  }
  ibv_qp_attr rts{};
  rts.qp_state = IBV_QPS_RTS;
  rts.sq_psn = 1;
  rts.timeout = timeout;
  rts.retry_cnt = 7;
  rts.rnr_retry = 7;
  rts.max_rd_atomic = reads;
  if (ibv_modify_qp(qp, &rts,
                    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                        IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) != 0) {
    fail("ibv_modify_qp to RTS");
  }
}

}  // namespace loopback
