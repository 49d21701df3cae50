/* Raw packet queue pairs and the rules that lead frames to them, on the loopback interface of a
 * network namespace of the test's own. Without CAP_NET_RAW there, EPERM. */
#define _GNU_SOURCE
#include <sys/wait.h>

#include "raw.h"

enum { kNobody = 65534 };

static const uint8_t kElsewhere[6] = {0x01, 0x50, 0x56, 0x19, 0x20, 0xa8};

static void check_unprivileged(void) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    if (geteuid() == 0) CHECK(setgid(kNobody) == 0 && setuid(kNobody) == 0);
    const struct card c = open_card();
    CHECK_NULL(EPERM, create_raw(&c));
    exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void check_refused_flows(const struct card* c, struct ibv_qp* raw) {
  struct ibv_qp* rc = create_rc_qp(c->pd, c->cq);
  struct eth_flow f = flow_to(kTo);
  CHECK_NULL(EINVAL, ibv_create_flow(rc, &f.attr));
  CHECK(ibv_destroy_qp(rc) == 0);
  f.attr.port = 2;
  CHECK_NULL(EINVAL, ibv_create_flow(raw, &f.attr));
  f = flow_to(kTo);
  f.attr.flags = IBV_FLOW_ATTR_FLAGS_EGRESS;
  CHECK_NULL(EOPNOTSUPP, ibv_create_flow(raw, &f.attr));
  f = flow_to(kTo);
  f.eth.size -= 4;
  CHECK_NULL(EINVAL, ibv_create_flow(raw, &f.attr));
  f = flow_to(kTo);
  f.eth.type = IBV_FLOW_SPEC_GRE;
  CHECK_NULL(EOPNOTSUPP, ibv_create_flow(raw, &f.attr));
  f.eth.type = IBV_FLOW_SPEC_ETH | IBV_FLOW_SPEC_INNER;
  CHECK_NULL(EOPNOTSUPP, ibv_create_flow(raw, &f.attr));
  f = flow_to(kTo);
  f.attr.type = IBV_FLOW_ATTR_SNIFFER;
  CHECK_NULL(EINVAL, ibv_create_flow(raw, &f.attr));
}

static enum ibv_wc_status send_frame(const struct card* c, struct ibv_qp* qp, uint32_t length) {
  struct ibv_sge sge = {(uintptr_t)c->memory, length, c->mr->lkey};
  return send_and_wait(
      c->cq, qp,
      (struct ibv_send_wr){.wr_id = 7, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1});
}

static void expect_frame(const struct card* c, struct ibv_qp* qp, uint64_t id, uint32_t length) {
  const struct ibv_wc wc = next_completion(c->cq);
  CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.wr_id == id);
  CHECK(wc.qp_num == qp->qp_num && wc.byte_len == length && (wc.wc_flags & IBV_WC_GRH) == 0);
  CHECK(memcmp(c->memory, c->memory + kReceives, length) == 0);
}

static void check_traffic(const struct card* c, struct ibv_qp* from, struct ibv_qp* to) {
  struct eth_flow f = flow_to(kTo);
  struct ibv_flow* flow = ibv_create_flow(to, &f.attr);
  CHECK(flow != NULL);
  CHECK(ibv_destroy_qp(to) == EBUSY);
  for (uint64_t id = 0; id < 4; ++id) {
    post_raw_receive(c, from, 100 + id); /* has no rule: nothing comes here */
    post_raw_receive(c, to, id);
  }
  for (uint8_t i = 0; i < 3; ++i) {
    const uint32_t length = i == 2 ? kMtuFrame : kFrame;
    write_frame(c, kElsewhere, i);
    CHECK(send_frame(c, from, kFrame) == IBV_WC_SUCCESS);
    write_frame(c, kTo, i);
    CHECK(send_frame(c, from, length) == IBV_WC_SUCCESS);
    expect_frame(c, to, i, length);
  }
  CHECK(ibv_destroy_flow(flow) == 0);
  /* What comes after that is nobody's: the next frame that arrives is one for the next rule. */
  CHECK(send_frame(c, from, kFrame) == IBV_WC_SUCCESS);
  struct ibv_flow_attr all = {.type = IBV_FLOW_ATTR_ALL_DEFAULT, .size = sizeof all, .port = 1};
  flow = ibv_create_flow(to, &all);
  CHECK(flow != NULL);
  write_frame(c, kElsewhere, 9);
  CHECK(send_frame(c, from, kFrame) == IBV_WC_SUCCESS);
  expect_frame(c, to, 3, kFrame);
  CHECK(ibv_destroy_flow(flow) == 0);
}

/* A program that sleeps is woken by a frame. */
static void check_event(const struct card* c, struct ibv_qp* from, struct ibv_qp* to) {
  struct eth_flow f = flow_to(kTo);
  struct ibv_flow* flow = ibv_create_flow(to, &f.attr);
  CHECK(flow != NULL);
  post_raw_receive(c, to, 1);
  write_frame(c, kTo, 3);
  CHECK(send_frame(c, from, kFrame) == IBV_WC_SUCCESS);
  struct ibv_wc wc;
  CHECK(ibv_req_notify_cq(c->cq, 0) == 0);
  if (ibv_poll_cq(c->cq, 1, &wc) == 0) {
    struct ibv_cq* cq = NULL;
    void* user = NULL;
    CHECK(ibv_get_cq_event(c->channel, &cq, &user) == 0 && cq == c->cq);
    ibv_ack_cq_events(cq, 1);
    CHECK(ibv_poll_cq(c->cq, 1, &wc) == 1);
  }
  CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.byte_len == kFrame);
  CHECK(ibv_destroy_flow(flow) == 0);
}

static void check_lengths(const struct card* c, struct ibv_qp* qp) {
  CHECK(send_frame(c, qp, 13) == IBV_WC_LOC_LEN_ERR);
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;
  CHECK(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0);
  CHECK(attr.qp_state == IBV_QPS_SQE && init.qp_type == IBV_QPT_RAW_PACKET);
  attr.qp_state = IBV_QPS_RTS;
  CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
  CHECK(send_frame(c, qp, kMtuFrame + 1) == IBV_WC_LOC_LEN_ERR);
}

/* ibv_wr_send() has no other meaning than ibv_post_send(). */
static void check_new_post(const struct card* c) {
  struct ibv_qp_init_attr_ex init = {
      .send_cq = c->cq,
      .recv_cq = c->cq,
      .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
      .qp_type = IBV_QPT_RAW_PACKET,
      .sq_sig_all = 1,
      .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
      .pd = c->pd,
      .send_ops_flags = IBV_QP_EX_WITH_SEND_WITH_IMM,
  };
  CHECK_NULL(EOPNOTSUPP, ibv_create_qp_ex(c->context, &init));
  init.send_ops_flags = IBV_QP_EX_WITH_SEND;
  struct ibv_qp* qp = ibv_create_qp_ex(c->context, &init);
  CHECK(qp != NULL);
  raw_to_rts(qp);
  struct eth_flow f = flow_to(kTo);
  struct ibv_flow* flow = ibv_create_flow(qp, &f.attr);
  CHECK(flow != NULL);
  post_raw_receive(c, qp, 1);
  write_frame(c, kTo, 5);
  struct ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp);
  ibv_wr_start(ex);
  ex->wr_id = 7;
  ibv_wr_send(ex);
  ibv_wr_set_sge(ex, c->mr->lkey, (uintptr_t)c->memory, kFrame);
  CHECK(ibv_wr_complete(ex) == 0);
  CHECK(next_completion(c->cq).opcode == IBV_WC_SEND);
  expect_frame(c, qp, 1, kFrame);
  CHECK(ibv_destroy_flow(flow) == 0);
  CHECK(ibv_destroy_qp(qp) == 0);
}

enum { kQueues = 4, kSenders = 16, kSpread = 2 * kSenders };

static const uint8_t kHashKey[40] = {0x2c, 0xc6, 0x81, 0xd1, 0x5b, 0xdb, 0xf4, 0xf7, 0xfc, 0xa2,
                                     0x83, 0x19, 0xdb, 0x1a, 0x3e, 0x94, 0x6b, 0x9e, 0x38, 0xd9,
                                     0x2c, 0x9c, 0x03, 0xd1, 0xad, 0x99, 0x44, 0xa7, 0xd9, 0x56,
                                     0x3d, 0x59, 0x06, 0x3c, 0x25, 0xf3, 0xfc, 0x1f, 0xdc, 0x2a};

/* An IPv4 packet that nobody answers: it comes from nowhere, and goes to a group. */
static void write_ipv4(const struct card* c, uint8_t sender) {
  const uint8_t header[] = {0x08, 0x00, 0x45, 0,   0, 86, 0,      0,   0, 0, 64,
                            253,  0,    0,    192, 0, 2,  sender, 239, 1, 2, 3};
  write_frame(c, kTo, sender);
  memcpy(c->memory + 12, header, sizeof header);
}

static struct ibv_wq* create_queue(const struct card* c) {
  struct ibv_wq_init_attr init = {
      .wq_type = IBV_WQT_RQ, .max_wr = kSpread, .max_sge = 1, .pd = c->pd, .cq = c->cq};
  struct ibv_wq* wq = ibv_create_wq(c->context, &init);
  CHECK(wq != NULL && wq->state == IBV_WQS_RESET && init.max_wr >= kSpread);
  struct ibv_wq_attr to = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY};
  CHECK(ibv_modify_wq(wq, &to) == 0 && wq->state == IBV_WQS_RDY);
  to.attr_mask |= IBV_WQ_ATTR_CURR_STATE;
  to.curr_wq_state = IBV_WQS_RESET;
  CHECK(ibv_modify_wq(wq, &to) == EINVAL);
  for (uint64_t id = 0; id < kSpread; ++id) {
    struct ibv_sge sge = {(uintptr_t)c->memory + kReceives, kRoom - kReceives, c->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1};
    struct ibv_recv_wr* bad = NULL;
    CHECK(ibv_post_wq_recv(wq, &wr, &bad) == 0);
  }
  return wq;
}

static struct ibv_qp* create_spread(const struct card* c, struct ibv_rwq_ind_table* table) {
  struct ibv_qp_init_attr_ex init = {
      .qp_type = IBV_QPT_RAW_PACKET,
      .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
      .pd = c->pd,
      .rwq_ind_tbl = table,
      .rx_hash_conf = {.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
                       .rx_hash_key_len = sizeof kHashKey - 1,
                       .rx_hash_key = (uint8_t*)kHashKey,
                       .rx_hash_fields_mask = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4},
  };
  CHECK_NULL(EINVAL, ibv_create_qp_ex(c->context, &init));
  init.rx_hash_conf.rx_hash_key_len = sizeof kHashKey;
  struct ibv_qp* qp = ibv_create_qp_ex(c->context, &init);
  CHECK(qp != NULL && init.cap.max_recv_wr == 0);
  return qp;
}

/* Frames are spread over queues, and those of one sender go to the same. */
static void check_spread(const struct card* c, struct ibv_qp* from) {
  struct ibv_wq* wqs[kQueues];
  for (int i = 0; i < kQueues; ++i) wqs[i] = create_queue(c);
  struct ibv_rwq_ind_table_init_attr init = {.log_ind_tbl_size = 12, .ind_tbl = wqs};
  CHECK_NULL(EINVAL, ibv_create_rwq_ind_table(c->context, &init));
  init.log_ind_tbl_size = 2;
  struct ibv_rwq_ind_table* table = ibv_create_rwq_ind_table(c->context, &init);
  CHECK(table != NULL);
  struct ibv_qp* qp = create_spread(c, table);
  CHECK(ibv_destroy_wq(wqs[0]) == EBUSY);
  CHECK(ibv_destroy_rwq_ind_table(table) == EBUSY);
  struct eth_flow f = flow_to(kTo);
  f.eth.val.ether_type = htobe16(0x0800);
  struct ibv_flow* flow = ibv_create_flow(qp, &f.attr);
  CHECK(flow != NULL);

  uint32_t queue_of[kSenders];
  unsigned used[kQueues] = {0};
  for (unsigned i = 0; i < kSpread; ++i) {
    write_ipv4(c, (uint8_t)(i % kSenders));
    CHECK(send_frame(c, from, kFrame) == IBV_WC_SUCCESS);
    const struct ibv_wc wc = next_completion(c->cq);
    CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.byte_len == kFrame);
    CHECK(memcmp(c->memory, c->memory + kReceives, kFrame) == 0);
    if (i < kSenders) queue_of[i] = wc.qp_num;
    CHECK(queue_of[i % kSenders] == wc.qp_num);
    for (int q = 0; q < kQueues; ++q) used[q] += wqs[q]->wq_num == wc.qp_num;
  }
  for (int q = 0; q < kQueues; ++q) CHECK(used[q] > 0 && used[q] < kSpread);

  CHECK(ibv_destroy_flow(flow) == 0);
  CHECK(ibv_destroy_qp(qp) == 0);
  CHECK(ibv_destroy_rwq_ind_table(table) == 0);
  /* What was posted and not used is flushed. */
  struct ibv_wq_attr to = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_ERR};
  CHECK(ibv_modify_wq(wqs[0], &to) == 0);
  for (unsigned i = used[0]; i < kSpread; ++i) {
    CHECK(next_completion(c->cq).status == IBV_WC_WR_FLUSH_ERR);
  }
  to.wq_state = IBV_WQS_RDY;
  CHECK(ibv_modify_wq(wqs[0], &to) == EINVAL);
  for (int i = 0; i < kQueues; ++i) CHECK(ibv_destroy_wq(wqs[i]) == 0);
}

int main(void) {
  check_unprivileged();
  if (!enter_network()) {
    printf("no network namespace here: %s\n", strerror(errno));
    return kSkipped;
  }
  const struct card c = open_card();
  struct ibv_qp* a = create_raw(&c);
  struct ibv_qp* b = create_raw(&c);
  CHECK(a != NULL && b != NULL);
  struct ibv_qp_attr without_port = {.qp_state = IBV_QPS_INIT};
  CHECK(ibv_modify_qp(a, &without_port, IBV_QP_STATE) == EINVAL);
  raw_to_rts(a);
  raw_to_rts(b);
  check_refused_flows(&c, b);
  check_traffic(&c, a, b);
  check_event(&c, a, b);
  check_spread(&c, a);
  check_lengths(&c, a);
  check_new_post(&c);
  CHECK(ibv_destroy_qp(a) == 0);
  /* Closing the device destroys what is left: a rule before the queue pair that it leads to. */
  struct eth_flow f = flow_to(kTo);
  CHECK(ibv_create_flow(b, &f.attr) != NULL);
  CHECK(ibv_close_device(c.context) == 0);
  return 0;
}
