/* Datagrams: the GRH, answering to whom a completion names, Q_Keys, what doesn't fit, and
 * multicast groups. */
#include <arpa/inet.h>

#include "abi.h"

enum { kQkey = 0x11111111, kGrh = sizeof(struct ibv_grh) };

struct ends {
  struct ibv_context* context;
  struct ibv_pd* pd;
  struct ibv_cq* cq[2];
  struct ibv_qp* qp[2];
  struct ibv_mr* mr;
  char* memory;
  struct ibv_ah* ah; /* to 127.0.0.1 */
};

static struct ibv_qp* create_ud_qp(struct ibv_pd* pd, struct ibv_cq* cq) {
  struct ibv_qp_init_attr init = {
      .send_cq = cq,
      .recv_cq = cq,
      .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
      .qp_type = IBV_QPT_UD,
  };
  struct ibv_qp* qp = ibv_create_qp(pd, &init);
  CHECK(qp != NULL);
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = kQkey};
  CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) ==
        0);
  attr.qp_state = IBV_QPS_RTR;
  CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = 5;
  CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
  return qp;
}

static struct ibv_ah* handle_to(struct ends* e, const union ibv_gid* dgid) {
  union ibv_gid loopback;
  struct ibv_ah_attr attr = {.port_num = 1, .is_global = 1, .grh = {.hop_limit = 1}};
  attr.grh.sgid_index = (uint8_t)loopback_gid(e->context, &loopback);
  attr.grh.dgid = dgid != NULL ? *dgid : loopback;
  return ibv_create_ah(e->pd, &attr);
}

static struct ends open_ends(void) {
  struct ends e = {.context = open_loopback()};
  e.pd = ibv_alloc_pd(e.context);
  e.memory = calloc(1, kMemory);
  e.mr = ibv_reg_mr(e.pd, e.memory, kMemory, IBV_ACCESS_LOCAL_WRITE);
  CHECK(e.pd != NULL && e.mr != NULL);
  for (int i = 0; i < 2; ++i) {
    e.cq[i] = ibv_create_cq(e.context, 16, NULL, NULL, 0);
    CHECK(e.cq[i] != NULL);
    e.qp[i] = create_ud_qp(e.pd, e.cq[i]);
  }
  e.ah = handle_to(&e, NULL);
  CHECK(e.ah != NULL);
  return e;
}

static void receive(struct ends* e, int on, uint64_t id, uint32_t length) {
  struct ibv_sge sge = {(uintptr_t)e->memory + 8192, length, e->mr->lkey};
  struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1};
  struct ibv_recv_wr* bad = NULL;
  CHECK(ibv_post_recv(e->qp[on], &wr, &bad) == 0);
}

static void send_from(struct ends* e, int from, struct ibv_ah* ah, uint32_t qpn, uint32_t qkey,
                      uint32_t length) {
  struct ibv_sge sge = {(uintptr_t)e->memory, length, e->mr->lkey};
  struct ibv_send_wr wr = {.wr_id = 7,
                           .sg_list = &sge,
                           .num_sge = 1,
                           .opcode = IBV_WR_SEND_WITH_IMM,
                           .send_flags = IBV_SEND_SIGNALED,
                           .imm_data = htonl(0xabcd),
                           .wr.ud = {.ah = ah, .remote_qpn = qpn, .remote_qkey = qkey}};
  struct ibv_send_wr* bad = NULL;
  CHECK(ibv_post_send(e->qp[from], &wr, &bad) == 0);
}

static void expect_sent(struct ends* e, int from) {
  const struct ibv_wc wc = next_completion(e->cq[from]);
  CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 7 && wc.opcode == IBV_WC_SEND);
}

static struct ibv_wc expect_received(struct ends* e, int on, uint64_t id, uint32_t length) {
  const struct ibv_wc wc = next_completion(e->cq[on]);
  CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == id && wc.opcode == IBV_WC_RECV);
  CHECK(wc.byte_len == kGrh + length && wc.wc_flags == (IBV_WC_GRH | IBV_WC_WITH_IMM));
  CHECK(ntohl(wc.imm_data) == 0xabcd && wc.qp_num == e->qp[on]->qp_num);
  CHECK(memcmp(e->memory + 8192 + kGrh, e->memory, length) == 0);
  return wc;
}

/* What came can be answered with nothing but the completion and the GRH. */
static void test_answer(struct ends* e) {
  memset(e->memory, 0x5a, 100);
  receive(e, 1, 21, 1000);
  send_from(e, 0, e->ah, e->qp[1]->qp_num, kQkey, 100);
  expect_sent(e, 0);
  struct ibv_wc wc = expect_received(e, 1, 21, 100);
  CHECK(wc.src_qp == e->qp[0]->qp_num);

  struct ibv_ah_attr attr;
  union ibv_gid loopback;
  const int index = loopback_gid(e->context, &loopback);
  struct ibv_grh* grh = (struct ibv_grh*)(e->memory + 8192);
  CHECK(ibv_init_ah_from_wc(e->context, 1, &wc, grh, &attr) == 0);
  CHECK(attr.is_global && attr.grh.sgid_index == index && attr.port_num == 1);
  CHECK(memcmp(&attr.grh.dgid, &loopback, sizeof loopback) == 0);
  struct ibv_ah* back = ibv_create_ah_from_wc(e->pd, &wc, grh, 1);
  CHECK(back != NULL);
  receive(e, 0, 22, 1000);
  send_from(e, 1, back, wc.src_qp, 0x80000000u, 10); /* top bit: the sender's own Q_Key */
  expect_sent(e, 1);
  expect_received(e, 0, 22, 10);
  CHECK(ibv_destroy_ah(back) == 0);

  grh->version_tclass_flow = 0;
  memset(grh, 0, sizeof *grh);
  CHECK(ibv_init_ah_from_wc(e->context, 1, &wc, grh, &attr) == -1);
}

static uint32_t wrong_qkeys(struct ends* e) {
  struct ibv_port_attr port;
  CHECK(ibv_query_port(e->context, 1, &port) == 0);
  return port.qkey_viol_cntr;
}

/* A wrong Q_Key and a receive that is too small: silence, and the receive serves the next. */
static void test_silent_drops(struct ends* e) {
  const uint32_t before = wrong_qkeys(e);
  receive(e, 1, 31, kGrh + 50);
  send_from(e, 0, e->ah, e->qp[1]->qp_num, kQkey + 1, 10);
  expect_sent(e, 0);
  send_from(e, 0, e->ah, e->qp[1]->qp_num, kQkey, 51);
  expect_sent(e, 0);
  send_from(e, 0, e->ah, e->qp[1]->qp_num, kQkey, 50);
  expect_sent(e, 0);
  expect_received(e, 1, 31, 50);
  CHECK(wrong_qkeys(e) == before + 1);
}

/* More than a packet: the send queue stops in SQE, and can be brought back to RTS. */
static void test_too_long(struct ends* e) {
  struct ibv_port_attr port;
  CHECK(ibv_query_port(e->context, 1, &port) == 0);
  const uint32_t mtu = 128u << port.active_mtu;
  send_from(e, 0, e->ah, e->qp[1]->qp_num, kQkey, mtu + 1);
  CHECK(next_completion(e->cq[0]).status == IBV_WC_LOC_LEN_ERR);
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;
  CHECK(ibv_query_qp(e->qp[0], &attr, IBV_QP_STATE, &init) == 0);
  CHECK(attr.qp_state == IBV_QPS_SQE && attr.qkey == kQkey && init.qp_type == IBV_QPT_UD);
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE};
  CHECK(ibv_modify_qp(e->qp[0], &attr, IBV_QP_STATE | IBV_QP_CUR_STATE) == 0);
  receive(e, 1, 41, kGrh + mtu);
  send_from(e, 0, e->ah, e->qp[1]->qp_num, kQkey, mtu);
  expect_sent(e, 0);
  expect_received(e, 1, 41, mtu);
}

static union ibv_gid group(const char* text) {
  union ibv_gid gid;
  CHECK(inet_pton(AF_INET6, text, gid.raw) == 1);
  return gid;
}

/* Both spellings of an IPv4 group are the same group; each member gets its own copy. */
static void test_multicast(struct ends* e) {
  const union ibv_gid tagged = group("ff0e::ffff:239.11.12.13");
  const union ibv_gid mapped = group("::ffff:239.11.12.13");
  struct ibv_ah* ah = handle_to(e, &tagged);
  CHECK(ah != NULL);
  CHECK(ibv_attach_mcast(e->qp[0], &mapped, 0) == 0);
  CHECK(ibv_attach_mcast(e->qp[1], &tagged, 0) == 0);
  CHECK(ibv_attach_mcast(e->qp[1], &tagged, 0) == 0); /* again: nothing new */
  receive(e, 0, 50, 1000);
  receive(e, 1, 51, 1000);
  send_from(e, 0, ah, 0xffffff, kQkey, 77);
  /* The sender is a member, too; its two completions come in either order. */
  int received = 0;
  for (int i = 0; i < 2; ++i) {
    const struct ibv_wc wc = next_completion(e->cq[0]);
    CHECK(wc.status == IBV_WC_SUCCESS);
    if (wc.opcode == IBV_WC_RECV) ++received;
  }
  CHECK(received == 1);
  struct ibv_wc wc = expect_received(e, 1, 51, 77);
  struct ibv_ah_attr answer; /* goes to the sender, from an address of ours */
  CHECK(ibv_init_ah_from_wc(e->context, 1, &wc, (struct ibv_grh*)(e->memory + 8192), &answer) == 0);
  CHECK(answer.grh.dgid.raw[12] == 127);

  CHECK(ibv_detach_mcast(e->qp[1], &mapped, 0) == 0);
  CHECK(ibv_detach_mcast(e->qp[1], &mapped, 0) == EINVAL);
  receive(e, 0, 52, 1000);
  receive(e, 1, 53, 1000);
  send_from(e, 1, ah, 0xffffff, kQkey, 5);
  expect_sent(e, 1);
  expect_received(e, 0, 52, 5);
  CHECK(ibv_poll_cq(e->cq[1], 1, &wc) == 0); /* no member any more */
  CHECK(ibv_destroy_ah(ah) == 0);

  const union ibv_gid unicast = group("::ffff:10.1.2.3");
  CHECK(ibv_attach_mcast(e->qp[1], &unicast, 0) == EINVAL);
}

int main(void) {
  struct ends e = open_ends();
  test_answer(&e);
  test_silent_drops(&e);
  test_too_long(&e);
  test_multicast(&e);
  CHECK(ibv_destroy_ah(e.ah) == 0);
  for (int i = 0; i < 2; ++i) CHECK(ibv_destroy_qp(e.qp[i]) == 0);
  for (int i = 0; i < 2; ++i) CHECK(ibv_destroy_cq(e.cq[i]) == 0);
  CHECK(ibv_dereg_mr(e.mr) == 0);
  CHECK(ibv_dealloc_pd(e.pd) == 0);
  CHECK(ibv_close_device(e.context) == 0);
  free(e.memory);
  return 0;
}
