/* The extended completion queue: polled entry by entry, with the fields that were asked for. */
#include <poll.h>

#include "abi.h"

static struct ibv_cq_init_attr_ex init_with(uint64_t fields) {
  return (struct ibv_cq_init_attr_ex){.cqe = 16, .wc_flags = fields};
}

/* start_poll until there is something; five seconds at most. */
static void await(struct ibv_cq_ex* cq) {
  struct ibv_poll_cq_attr attr = {0};
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (;;) {
    const int code = ibv_start_poll(cq, &attr);
    if (code == 0) return;
    CHECK(code == ENOENT);
    clock_gettime(CLOCK_MONOTONIC, &now);
    CHECK(now.tv_sec - start.tv_sec < 5);
  }
}

static uint64_t nanoseconds(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static struct ibv_qp* qp_on(struct pair* p, struct ibv_cq_ex* cq) {
  return create_rc_qp(p->pd, ibv_cq_ex_to_cq(cq));
}

static void send_immediate(struct pair* p, struct ibv_qp* qp, uint64_t id, uint32_t immediate) {
  struct ibv_sge sge = sge_of(p, 0, 100);
  struct ibv_send_wr wr = {.wr_id = id,
                           .sg_list = &sge,
                           .num_sge = 1,
                           .opcode = IBV_WR_SEND_WITH_IMM,
                           .send_flags = IBV_SEND_SIGNALED,
                           .imm_data = immediate};
  struct ibv_send_wr* bad = NULL;
  CHECK(ibv_post_send(qp, &wr, &bad) == 0);
}

static void test_fields(struct pair* p) {
  const uint64_t kFields = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                           IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  struct ibv_cq_init_attr_ex init = init_with(kFields);
  struct ibv_cq_ex* cq = ibv_create_cq_ex(p->context, &init);
  CHECK(cq != NULL && cq->cqe >= 16);
  struct ibv_qp* qp[2] = {qp_on(p, cq), qp_on(p, cq)};
  for (int i = 0; i < 2; ++i) to_init(qp[i]);
  for (int i = 0; i < 2; ++i) to_rts(qp[i], qp[1 - i]->qp_num);

  struct ibv_sge sge = sge_of(p, 4096, 200);
  struct ibv_recv_wr receive = {.wr_id = 7, .sg_list = &sge, .num_sge = 1};
  struct ibv_recv_wr* bad = NULL;
  CHECK(ibv_post_recv(qp[1], &receive, &bad) == 0);
  const uint64_t before = nanoseconds(CLOCK_MONOTONIC), wall_before = nanoseconds(CLOCK_REALTIME);
  send_immediate(p, qp[0], 8, 0x12345678);

  int sent = 0, received = 0;
  await(cq);
  for (int left = 2; left > 0;) {
    CHECK(cq->status == IBV_WC_SUCCESS);
    const uint64_t at = ibv_wc_read_completion_ts(cq);
    CHECK(at >= before && at <= nanoseconds(CLOCK_MONOTONIC));
    const uint64_t wall = ibv_wc_read_completion_wallclock_ns(cq);
    CHECK(wall + 1000000 >= wall_before && wall <= nanoseconds(CLOCK_REALTIME) + 1000000);
    CHECK(ibv_wc_read_slid(cq) == 0 && ibv_wc_read_sl(cq) == 0);
    CHECK(ibv_wc_read_dlid_path_bits(cq) == 0 && ibv_wc_read_vendor_err(cq) == 0);
    if (ibv_wc_read_opcode(cq) == IBV_WC_RECV) {
      ++received;
      CHECK(cq->wr_id == 7 && ibv_wc_read_byte_len(cq) == 100);
      CHECK(ibv_wc_read_wc_flags(cq) == IBV_WC_WITH_IMM);
      CHECK(ibv_wc_read_imm_data(cq) == 0x12345678);
      CHECK(ibv_wc_read_qp_num(cq) == qp[1]->qp_num);
    } else {
      ++sent;
      CHECK(ibv_wc_read_opcode(cq) == IBV_WC_SEND && cq->wr_id == 8);
      CHECK(ibv_wc_read_wc_flags(cq) == 0);
      CHECK(ibv_wc_read_qp_num(cq) == qp[0]->qp_num);
    }
    if (--left > 0 && ibv_next_poll(cq) == ENOENT) {
      ibv_end_poll(cq);
      await(cq);
    }
  }
  CHECK(sent == 1 && received == 1);
  CHECK(ibv_next_poll(cq) == ENOENT);
  ibv_end_poll(cq);
  /* Nothing is left, and ending twice does no harm. */
  struct ibv_poll_cq_attr attr = {0};
  CHECK(ibv_start_poll(cq, &attr) == ENOENT);
  ibv_end_poll(cq);
  for (int i = 0; i < 2; ++i) CHECK(ibv_destroy_qp(qp[i]) == 0);
  CHECK(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
}

/* One that the classic poll empties, and only what was asked for can be read. */
static void test_classic_poll(struct pair* p) {
  struct ibv_cq_init_attr_ex init = init_with(IBV_WC_EX_WITH_QP_NUM);
  init.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
  init.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
  init.parent_domain = p->pd;
  struct ibv_cq_ex* cq = ibv_create_cq_ex(p->context, &init);
  CHECK(cq != NULL && cq->read_qp_num != NULL && cq->read_byte_len == NULL);
  struct ibv_qp* qp = qp_on(p, cq);
  to_init(qp);
  to_rts(qp, qp->qp_num);
  struct ibv_send_wr wr = {.wr_id = 9,
                           .opcode = IBV_WR_RDMA_WRITE,
                           .send_flags = IBV_SEND_SIGNALED,
                           .wr.rdma = {.remote_addr = 0, .rkey = 0}};
  struct ibv_send_wr* bad = NULL;
  CHECK(ibv_post_send(qp, &wr, &bad) == 0);
  const struct ibv_wc wc = next_completion(ibv_cq_ex_to_cq(cq));
  CHECK(wc.wr_id == 9 && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RDMA_WRITE);
  CHECK(ibv_destroy_qp(qp) == 0);
  CHECK(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
}

/* Completions that don't fit are lost, and nobody goes down. */
static void test_ignored_overrun(struct pair* p) {
  struct ibv_cq_init_attr_ex init = init_with(0);
  init.cqe = 1;
  init.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  init.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  struct ibv_cq_ex* cq = ibv_create_cq_ex(p->context, &init);
  CHECK(cq != NULL);
  struct ibv_qp* qp = qp_on(p, cq);
  to_init(qp);
  to_rts(qp, qp->qp_num);
  for (uint64_t id = 1; id <= 4; ++id) {
    struct ibv_send_wr wr = {
        .wr_id = id, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr* bad = NULL;
    CHECK(ibv_post_send(qp, &wr, &bad) == 0);
  }
  CHECK(next_completion(ibv_cq_ex_to_cq(cq)).wr_id == 1);
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr made;
  CHECK(ibv_query_qp(qp, &attr, IBV_QP_STATE, &made) == 0 && attr.qp_state == IBV_QPS_RTS);
  CHECK(ibv_destroy_qp(qp) == 0);
  CHECK(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
}

static void write_nothing(struct ibv_qp* qp) {
  struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
  struct ibv_send_wr* bad = NULL;
  CHECK(ibv_post_send(qp, &wr, &bad) == 0);
}

static void take(struct ibv_cq* cq, int count) {
  for (int i = 0; i < count; ++i) CHECK(next_completion(cq).status == IBV_WC_SUCCESS);
}

static int readable(struct ibv_comp_channel* channel, int milliseconds) {
  struct pollfd fd = {.fd = channel->fd, .events = POLLIN};
  return poll(&fd, 1, milliseconds);
}

static void take_event(struct ibv_cq* cq) {
  struct ibv_cq* told = NULL;
  void* user = NULL;
  CHECK(ibv_get_cq_event(cq->channel, &told, &user) == 0 && told == cq);
  ibv_ack_cq_events(cq, 1);
}

/* An event for every third completion, or 50 ms after the first. */
static void test_moderation(struct pair* p) {
  struct ibv_cq* cq = ibv_create_cq(p->context, 16, NULL, p->channel, 0);
  struct ibv_qp* qp = create_rc_qp(p->pd, cq);
  to_init(qp);
  to_rts(qp, qp->qp_num);
  struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE,
                                    .moderate = {.cq_count = 3, .cq_period = 0}};
  CHECK(ibv_modify_cq(cq, &attr) == 0);
  CHECK(ibv_req_notify_cq(cq, 0) == 0);
  for (int i = 0; i < 2; ++i) write_nothing(qp);
  take(cq, 2);
  CHECK(readable(p->channel, 0) == 0);
  write_nothing(qp);
  CHECK(readable(p->channel, 5000) == 1);
  take_event(cq);
  take(cq, 1);

  attr.moderate.cq_period = 50000;
  CHECK(ibv_modify_cq(cq, &attr) == 0);
  CHECK(ibv_req_notify_cq(cq, 0) == 0);
  const uint64_t before = nanoseconds(CLOCK_MONOTONIC);
  write_nothing(qp);
  CHECK(readable(p->channel, 5000) == 1);
  CHECK(nanoseconds(CLOCK_MONOTONIC) - before >= 50000000);
  take_event(cq);
  take(cq, 1);

  /* It goes while an event of it is due. */
  CHECK(ibv_req_notify_cq(cq, 0) == 0);
  write_nothing(qp);
  take(cq, 1);
  CHECK(ibv_destroy_qp(qp) == 0);
  CHECK(ibv_destroy_cq(cq) == 0);
  CHECK(readable(p->channel, 100) == 0);
}

static void test_refusals(struct pair* p) {
  struct ibv_cq_init_attr_ex init = init_with(IBV_WC_EX_WITH_TM_INFO);
  CHECK_NULL(EOPNOTSUPP, ibv_create_cq_ex(p->context, &init));
  init = init_with(0);
  init.cqe = 0;
  CHECK_NULL(EINVAL, ibv_create_cq_ex(p->context, &init));
  init = init_with(0);
  init.comp_vector = (uint32_t)p->context->num_comp_vectors;
  CHECK_NULL(EINVAL, ibv_create_cq_ex(p->context, &init));
  init = init_with(0);
  init.comp_mask = 1u << 30;
  CHECK_NULL(EINVAL, ibv_create_cq_ex(p->context, &init));
  init = init_with(0);
  init.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  init.flags = 1u << 30;
  CHECK_NULL(EOPNOTSUPP, ibv_create_cq_ex(p->context, &init));
  init = init_with(0);
  init.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  CHECK_NULL(EINVAL, ibv_create_cq_ex(p->context, &init));

  init = init_with(0);
  struct ibv_cq_ex* cq = ibv_create_cq_ex(p->context, &init);
  struct ibv_poll_cq_attr attr = {.comp_mask = 1};
  CHECK(ibv_start_poll(cq, &attr) == EINVAL);
  struct ibv_modify_cq_attr moderate = {.attr_mask = IBV_CQ_ATTR_RESERVED};
  CHECK(ibv_modify_cq(ibv_cq_ex_to_cq(cq), &moderate) == EINVAL);
  CHECK(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
}

int main(void) {
  struct pair p = connect_pair();
  test_fields(&p);
  test_classic_poll(&p);
  test_ignored_overrun(&p);
  test_moderation(&p);
  test_refusals(&p);
  destroy_pair(&p);
  return 0;
}
