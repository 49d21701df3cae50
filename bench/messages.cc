// A fixed number of messages between two queue pairs of this process, one after another: post, then
// poll until it is complete. bench/instructions.py counts what that takes.
//
//   verbena run -- messages write|send|read BYTES COUNT
#include <infiniband/verbs.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace {

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

ibv_context* open_loopback() {
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  for (int i = 0; i < count; ++i) {
    if (std::string_view{ibv_get_device_name(list[i])} == "vb_lo") return ibv_open_device(list[i]);
  }
  fail("there is no vb_lo: use verbena run");
}

/// The index of 127.0.0.1 in the GID table.
int loopback_gid(ibv_context* context, ibv_gid& gid) {
  constexpr std::uint8_t kWanted[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
  for (int i = 0; ibv_query_gid(context, 1, i, &gid) == 0; ++i) {
    if (std::memcmp(gid.raw, kWanted, sizeof kWanted) == 0) return i;
  }
  fail("127.0.0.1 is not in the GID table");
}

void connect(ibv_context* context, ibv_qp* qp, std::uint32_t peer) {
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
  rtr.max_dest_rd_atomic = 16;
  rtr.min_rnr_timer = 12;
  rtr.ah_attr.is_global = 1;
  rtr.ah_attr.port_num = 1;
  rtr.ah_attr.grh.hop_limit = 1;
  rtr.ah_attr.grh.sgid_index =
      static_cast<std::uint8_t>(loopback_gid(context, rtr.ah_attr.grh.dgid));
  if (ibv_modify_qp(qp, &rtr,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0) {
    fail("ibv_modify_qp to RTR");
  }
  ibv_qp_attr rts{};
  rts.qp_state = IBV_QPS_RTS;
  rts.sq_psn = 1;
  rts.timeout = 20;  // valgrind is slow
  rts.retry_cnt = 7;
  rts.rnr_retry = 7;
  rts.max_rd_atomic = 16;
  if (ibv_modify_qp(qp, &rts,
                    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                        IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) != 0) {
    fail("ibv_modify_qp to RTS");
  }
}

void poll_one(ibv_cq* cq) {
  ibv_wc wc{};
  int n = 0;
  while (n == 0) n = ibv_poll_cq(cq, 1, &wc);
  if (n < 0 || wc.status != IBV_WC_SUCCESS) fail(ibv_wc_status_str(wc.status));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: verbena run -- %s write|send|read BYTES COUNT\n", argv[0]);
    return 2;
  }
  const std::string_view what{argv[1]};
  const auto bytes = static_cast<std::uint32_t>(std::strtoul(argv[2], nullptr, 10));
  const long count = std::strtol(argv[3], nullptr, 10);
  const bool sends = what == "send";

  ibv_context* const context = open_loopback();
  ibv_pd* const pd = ibv_alloc_pd(context);
  ibv_cq* const send_cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
  ibv_cq* const receive_cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
  std::vector<char> memory(2 * std::size_t{bytes});
  ibv_mr* const mr =
      ibv_reg_mr(pd, memory.data(), memory.size(),
                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  if (pd == nullptr || send_cq == nullptr || receive_cq == nullptr || mr == nullptr) fail("set-up");
  ibv_qp_init_attr init{};
  init.send_cq = send_cq;
  init.recv_cq = receive_cq;
  init.cap.max_send_wr = init.cap.max_recv_wr = 16;
  init.cap.max_send_sge = init.cap.max_recv_sge = 1;
  init.qp_type = IBV_QPT_RC;
  ibv_qp* const near = ibv_create_qp(pd, &init);
  ibv_qp* const far = ibv_create_qp(pd, &init);
  if (near == nullptr || far == nullptr) fail("ibv_create_qp");
  connect(context, near, far->qp_num);
  connect(context, far, near->qp_num);

  const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
  ibv_sge here{at, bytes, mr->lkey};
  ibv_sge there{at + bytes, bytes, mr->lkey};
  ibv_recv_wr receive{};
  receive.sg_list = &there;
  receive.num_sge = 1;
  ibv_send_wr send{};
  send.sg_list = &here;
  send.num_sge = 1;
  send.opcode = sends ? IBV_WR_SEND : what == "read" ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
  send.send_flags = IBV_SEND_SIGNALED;
  send.wr.rdma.remote_addr = at + bytes;
  send.wr.rdma.rkey = mr->rkey;
  for (long i = 0; i < count; ++i) {
    ibv_recv_wr* bad_receive = nullptr;
    ibv_send_wr* bad_send = nullptr;
    if (sends && ibv_post_recv(far, &receive, &bad_receive) != 0) fail("ibv_post_recv");
    if (ibv_post_send(near, &send, &bad_send) != 0) fail("ibv_post_send");
    if (sends) poll_one(receive_cq);
    poll_one(send_cq);
  }
  return 0;
}
