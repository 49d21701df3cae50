// A fixed number of messages between two queue pairs of this process, one after another: post, then
// poll until it is complete. bench/instructions.py counts what that takes.
//
//   verbena run -- messages write|send|read BYTES COUNT
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "loopback.h"

namespace {

using loopback::fail;

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

  ibv_context* const context = loopback::open_device();
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
  constexpr std::uint8_t kTimeout = 20;  // valgrind is slow
  loopback::connect(context, near, far->qp_num, kTimeout);
  loopback::connect(context, far, near->qp_num, kTimeout);

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
