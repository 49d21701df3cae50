/* Queue pairs that are posted to by the ibv_wr_* family: every kind of request, all or none. */
#include "abi.h"

static struct ibv_qp_ex* create(struct pair* p, struct ibv_cq* cq, enum ibv_qp_type type,
                                uint64_t operations) {
  struct ibv_qp_init_attr_ex init = {
      .send_cq = cq,
      .recv_cq = cq,
      .cap = {.max_send_wr = 4,
              .max_recv_wr = 4,
              .max_send_sge = 2,
              .max_recv_sge = 2,
              .max_inline_data = 32},
      .qp_type = type,
      .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
      .pd = p->pd,
      .send_ops_flags = operations,
  };
  struct ibv_qp* qp = ibv_create_qp_ex(p->context, &init);
  if (qp == NULL) return NULL;
  CHECK(init.cap.max_inline_data >= 32);
  CHECK(ibv_qp_to_qp_ex(qp) != NULL);
  return ibv_qp_to_qp_ex(qp);
}

enum { kAll = (1 << 11) - 1 - IBV_QP_EX_WITH_TSO + IBV_QP_EX_WITH_ATOMIC_WRITE };

static void begin(struct ibv_qp_ex* qp, uint64_t id) {
  ibv_wr_start(qp);
  qp->wr_id = id;
  qp->wr_flags = IBV_SEND_SIGNALED;
}

static struct ibv_wc complete(struct pair* p, struct ibv_qp_ex* qp) {
  CHECK(ibv_wr_complete(qp) == 0);
  const struct ibv_wc wc = next_completion(p->cq);
  CHECK(wc.wr_id == qp->wr_id);
  return wc;
}

static void succeed(struct pair* p, struct ibv_qp_ex* qp, enum ibv_wc_opcode opcode) {
  const struct ibv_wc wc = complete(p, qp);
  CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == opcode);
}

static void test_one_sided(struct pair* p, struct ibv_qp_ex* qp) {
  const uintptr_t target = (uintptr_t)p->memory + 4096;
  uint64_t* word = (uint64_t*)target;
  memset(p->memory, 0x5a, 64);
  begin(qp, 1);
  ibv_wr_rdma_write(qp, p->mr->rkey, target);
  ibv_wr_set_sge(qp, p->mr->lkey, (uintptr_t)p->memory, 64);
  succeed(p, qp, IBV_WC_RDMA_WRITE);
  CHECK(memcmp((void*)target, p->memory, 64) == 0);

  /* Inline data from two places, which are free again before the request is posted. */
  char first[] = "one", second[] = "two";
  const struct ibv_data_buf list[] = {{first, 3}, {second, 3}};
  begin(qp, 2);
  ibv_wr_rdma_write(qp, p->mr->rkey, target);
  ibv_wr_set_inline_data_list(qp, 2, list);
  memset(first, 0, sizeof first);
  succeed(p, qp, IBV_WC_RDMA_WRITE);
  CHECK(memcmp((void*)target, "onetwo", 6) == 0);

  const struct ibv_sge scattered[] = {sge_of(p, 8192, 4), sge_of(p, 9000, 2)};
  begin(qp, 3);
  ibv_wr_rdma_read(qp, p->mr->rkey, target);
  ibv_wr_set_sge_list(qp, 2, scattered);
  succeed(p, qp, IBV_WC_RDMA_READ);
  CHECK(memcmp(p->memory + 8192, "onet", 4) == 0 && memcmp(p->memory + 9000, "wo", 2) == 0);

  *word = 40;
  begin(qp, 4);
  ibv_wr_atomic_fetch_add(qp, p->mr->rkey, target, 2);
  ibv_wr_set_sge(qp, p->mr->lkey, (uintptr_t)p->memory, 8);
  succeed(p, qp, IBV_WC_FETCH_ADD);
  CHECK(*word == 42 && *(uint64_t*)p->memory == 40);
  begin(qp, 5);
  ibv_wr_atomic_cmp_swp(qp, p->mr->rkey, target, 42, 7);
  ibv_wr_set_sge(qp, p->mr->lkey, (uintptr_t)p->memory, 8);
  succeed(p, qp, IBV_WC_COMP_SWAP);
  CHECK(*word == 7 && *(uint64_t*)p->memory == 42);
  const uint64_t value = 0x1122334455667788;
  begin(qp, 6);
  ibv_wr_atomic_write(qp, p->mr->rkey, target, &value);
  succeed(p, qp, IBV_WC_ATOMIC_WRITE);
  CHECK(*word == value);
}

/* Each takes a receive of the classic queue pair at the other end. */
static void test_two_sided(struct pair* p, struct ibv_qp_ex* qp, struct ibv_qp* peer) {
  for (int kind = 0; kind < 3; ++kind) {
    struct ibv_sge sge = sge_of(p, 16384, 64);
    struct ibv_recv_wr receive = {.wr_id = 99, .sg_list = &sge, .num_sge = 1};
    struct ibv_recv_wr* bad = NULL;
    CHECK(ibv_post_recv(peer, &receive, &bad) == 0);
    begin(qp, 10);
    if (kind == 0) ibv_wr_send(qp);
    if (kind == 1) ibv_wr_send_imm(qp, 0xabcd);
    if (kind == 2) ibv_wr_rdma_write_imm(qp, p->mr->rkey, (uintptr_t)p->memory + 4096, 0xabcd);
    ibv_wr_set_inline_data(qp, "hello", 5);
    CHECK(ibv_wr_complete(qp) == 0);
    for (int i = 0; i < 2; ++i) {
      const struct ibv_wc wc = next_completion(p->cq);
      CHECK(wc.status == IBV_WC_SUCCESS);
      if (wc.wr_id != 99) continue;
      CHECK(wc.byte_len == 5 && ((wc.wc_flags & IBV_WC_WITH_IMM) != 0) == (kind > 0));
      CHECK(kind == 0 || wc.imm_data == 0xabcd);
    }
  }
  CHECK(memcmp(p->memory + 16384, "hello", 5) == 0);
}

static void test_windows(struct pair* p, struct ibv_qp_ex* qp, struct ibv_qp_ex* peer) {
  struct ibv_mw* mw = ibv_alloc_mw(p->pd, IBV_MW_TYPE_2);
  CHECK(mw != NULL);
  const struct ibv_mw_bind_info info = {.mr = p->mr,
                                        .addr = (uintptr_t)p->memory + 4096,
                                        .length = 100,
                                        .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
  uint32_t rkey = ibv_inc_rkey(mw->rkey);
  begin(peer, 20);
  ibv_wr_bind_mw(peer, mw, rkey, &info);
  succeed(p, peer, IBV_WC_BIND_MW);
  begin(qp, 21);
  ibv_wr_rdma_write(qp, rkey, info.addr);
  ibv_wr_set_inline_data(qp, "x", 1);
  succeed(p, qp, IBV_WC_RDMA_WRITE);
  begin(peer, 22);
  ibv_wr_local_inv(peer, rkey);
  succeed(p, peer, IBV_WC_LOCAL_INV);

  rkey = ibv_inc_rkey(rkey);
  begin(peer, 23);
  ibv_wr_bind_mw(peer, mw, rkey, &info);
  succeed(p, peer, IBV_WC_BIND_MW);
  struct ibv_recv_wr receive = {.wr_id = 98};
  struct ibv_recv_wr* bad = NULL;
  CHECK(ibv_post_recv(&peer->qp_base, &receive, &bad) == 0);
  begin(qp, 24);
  ibv_wr_send_inv(qp, rkey);
  CHECK(ibv_wr_complete(qp) == 0);
  for (int i = 0; i < 2; ++i) {
    const struct ibv_wc wc = next_completion(p->cq);
    CHECK(wc.status == IBV_WC_SUCCESS);
    if (wc.wr_id == 98) CHECK(wc.wc_flags == IBV_WC_WITH_INV && wc.invalidated_rkey == rkey);
  }
  CHECK(ibv_dealloc_mw(mw) == 0);
}

static void expect_nothing(struct pair* p) {
  struct ibv_wc wc;
  CHECK(ibv_poll_cq(p->cq, 1, &wc) == 0);
}

static void write_one(struct pair* p, struct ibv_qp_ex* qp, uint64_t id, char byte) {
  qp->wr_id = id;
  ibv_wr_rdma_write(qp, p->mr->rkey, (uintptr_t)p->memory + 4096 + id);
  ibv_wr_set_inline_data(qp, &byte, 1);
}

/* A list is posted as a whole; after a mistake in its middle, or an abort, nothing is. */
static void test_lists(struct pair* p, struct ibv_qp_ex* qp) {
  memset(p->memory + 4096, 0, 64);
  begin(qp, 0);
  for (uint64_t i = 0; i < 4; ++i) write_one(p, qp, 30 + i, 'a');
  CHECK(ibv_wr_complete(qp) == 0);
  for (uint64_t i = 0; i < 4; ++i) CHECK(next_completion(p->cq).wr_id == 30 + i);
  CHECK(memcmp(p->memory + 4096 + 30, "aaaa", 4) == 0);

  begin(qp, 0);
  for (uint64_t i = 0; i < 5; ++i) write_one(p, qp, 30 + i, 'b'); /* one more than fits */
  CHECK(ibv_wr_complete(qp) == ENOMEM);
  begin(qp, 0);
  write_one(p, qp, 30, 'c');
  char much[33] = {0};
  ibv_wr_rdma_write(qp, p->mr->rkey, (uintptr_t)p->memory);
  ibv_wr_set_inline_data(qp, much, 1000000);
  write_one(p, qp, 31, 'c');
  CHECK(ibv_wr_complete(qp) == EINVAL);
  begin(qp, 0);
  write_one(p, qp, 30, 'd');
  ibv_wr_abort(qp);
  begin(qp, 0);
  ibv_wr_set_sge(qp, p->mr->lkey, (uintptr_t)p->memory, 8); /* of no request */
  CHECK(ibv_wr_complete(qp) == EINVAL);
  begin(qp, 0);
  ibv_wr_bind_mw(qp, NULL, 0, NULL);
  CHECK(ibv_wr_complete(qp) == EINVAL);
  begin(qp, 0);
  CHECK(ibv_wr_complete(qp) == 0); /* an empty list */
  expect_nothing(p);

  /* The other way of posting is still there. */
  struct ibv_send_wr wr = {.wr_id = 40, .opcode = IBV_WR_RDMA_WRITE};
  CHECK(send_and_wait(p->cq, &qp->qp_base, wr) == IBV_WC_SUCCESS);
  CHECK(memcmp(p->memory + 4096 + 30, "aaaa", 4) == 0);
}

static void test_refusals(struct pair* p) {
  CHECK(ibv_qp_to_qp_ex(p->qp[0]) == NULL); /* made without */
  CHECK_NULL(EOPNOTSUPP, create(p, p->cq, IBV_QPT_RC, UINT64_C(1) << 40));
  CHECK_NULL(EOPNOTSUPP, create(p, p->cq, IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE));
  CHECK_NULL(EOPNOTSUPP, create(p, p->cq, IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_READ));

  struct ibv_qp_ex* qp = create(p, p->cq, IBV_QPT_RC, IBV_QP_EX_WITH_SEND);
  begin(qp, 50);
  ibv_wr_send(qp);
  CHECK(ibv_wr_complete(qp) == EINVAL); /* in RESET */
  to_init(&qp->qp_base);
  to_rts(&qp->qp_base, qp->qp_base.qp_num);
  begin(qp, 51);
  ibv_wr_rdma_write(qp, p->mr->rkey, (uintptr_t)p->memory); /* not asked for */
  CHECK(ibv_wr_complete(qp) == EOPNOTSUPP);
  expect_nothing(p);
  CHECK(ibv_destroy_qp(&qp->qp_base) == 0);
}

static void test_datagram(struct pair* p) {
  struct ibv_qp_ex* qp = create(p, p->cq, IBV_QPT_UD, IBV_QP_EX_WITH_SEND);
  CHECK(qp != NULL);
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x11};
  CHECK(ibv_modify_qp(&qp->qp_base, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
  attr.qp_state = IBV_QPS_RTR;
  CHECK(ibv_modify_qp(&qp->qp_base, &attr, IBV_QP_STATE) == 0);
  attr.qp_state = IBV_QPS_RTS;
  CHECK(ibv_modify_qp(&qp->qp_base, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
  struct ibv_ah_attr to = rtr_attr(p->context, 0).ah_attr;
  struct ibv_ah* ah = ibv_create_ah(p->pd, &to);
  CHECK(ah != NULL);

  struct ibv_sge sge = sge_of(p, 0, 200);
  struct ibv_recv_wr receive = {.wr_id = 61, .sg_list = &sge, .num_sge = 1};
  struct ibv_recv_wr* bad = NULL;
  CHECK(ibv_post_recv(&qp->qp_base, &receive, &bad) == 0);
  begin(qp, 60);
  ibv_wr_send(qp);
  ibv_wr_set_inline_data(qp, "datagram", 8);
  CHECK(ibv_wr_complete(qp) == EINVAL); /* without an address */
  begin(qp, 60);
  ibv_wr_send(qp);
  ibv_wr_set_ud_addr(qp, ah, qp->qp_base.qp_num, 0x11);
  ibv_wr_set_inline_data(qp, "datagram", 8);
  CHECK(ibv_wr_complete(qp) == 0);
  for (int i = 0; i < 2; ++i) CHECK(next_completion(p->cq).status == IBV_WC_SUCCESS);
  CHECK(memcmp(p->memory + 40, "datagram", 8) == 0);
  CHECK(ibv_destroy_ah(ah) == 0);
  CHECK(ibv_destroy_qp(&qp->qp_base) == 0);
}

int main(void) {
  struct pair p = connect_pair();
  struct ibv_qp_ex* qp[2];
  for (int i = 0; i < 2; ++i) {
    qp[i] = create(&p, p.cq, IBV_QPT_RC, kAll);
    CHECK(qp[i] != NULL);
    to_init(&qp[i]->qp_base);
  }
  for (int i = 0; i < 2; ++i) to_rts(&qp[i]->qp_base, qp[1 - i]->qp_base.qp_num);
  test_one_sided(&p, qp[0]);
  test_two_sided(&p, qp[0], &qp[1]->qp_base);
  test_windows(&p, qp[0], qp[1]);
  test_lists(&p, qp[0]);
  for (int i = 0; i < 2; ++i) CHECK(ibv_destroy_qp(&qp[i]->qp_base) == 0);
  test_refusals(&p);
  test_datagram(&p);
  destroy_pair(&p);
  return 0;
}
