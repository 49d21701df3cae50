#pragma once

// One of the two queue pairs, its memory, and the steps that it takes.

#include "labs/common/lab.h"
#include "labs/common/state.h"
#include "rdma++/rdma.h"

namespace two_qp {

struct Side {
  Side(const char* is, const rdma::ProtectionDomain& pd, const rdma::CompletionQueue& sent,
       const rdma::CompletionQueue& received, std::size_t size)
      : name{is},
        qp{rdma::QueuePair::rc(pd).send_cq(sent).recv_cq(received).depth(4, 4).create()},
        out{pd, size},
        in{pd, size} {
    expect_state(IBV_QPS_RESET);
  }

  /// The device's word for it, not ours.
  void expect_state(ibv_qp_state wanted) const {
    const ibv_qp_state state = qp.query(IBV_QP_STATE).qp_state;
    lab::check(state == wanted, "{} is in state {}, not {}", name, lab::state_name(state),
               lab::state_name(wanted));
  }

  /// 3. A port and rights. Receives may be posted from here on.
  void to_init() {
    qp.to_init({.port = qp.info().port, .access = rdma::Access::none});
    expect_state(IBV_QPS_INIT);
    post_receive();
  }
  /// 4. Who the peer is, and the PSN of its first packet.
  void to_rtr(const rdma::ConnInfo& peer, std::uint32_t first_psn) {
    qp.to_rtr({.path = qp.path_to(peer),
               .qpn = peer.qpn,
               .psn = first_psn,
               .mtu = std::min(qp.info().mtu, peer.mtu),
               .max_dest_rd_atomic = 1,
               .min_rnr_timer = 7});
    expect_state(IBV_QPS_RTR);
  }
  /// 5. The PSN of our own first packet, and when to send it again.
  void to_rts() {
    qp.to_rts({.psn = qp.info().psn,
               .timeout = 14,  // 67 ms
               .retry_count = 7,
               .rnr_retry = 7,
               .max_rd_atomic = 1});
    expect_state(IBV_QPS_RTS);
  }
  void post_receive() const { qp.post(rdma::Recv{in}).check(); }

  const char* name;
  rdma::QueuePair qp;
  rdma::Buffer out, in;
};

}  // namespace two_qp
