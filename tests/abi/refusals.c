/* What must be refused, with the return value and the errno of the man pages. */
#include "abi.h"

static void test_memory(struct ibv_pd* pd) {
  static char bytes[8192];
  volatile unsigned local = IBV_ACCESS_LOCAL_WRITE; /* not a constant: ibv_reg_mr_iova2 */
  CHECK_NULL(EINVAL, ibv_reg_mr(pd, bytes, sizeof bytes, IBV_ACCESS_REMOTE_WRITE));
  CHECK_NULL(EINVAL, ibv_reg_mr(pd, bytes, 0, IBV_ACCESS_LOCAL_WRITE));
  CHECK_NULL(EINVAL, ibv_reg_mr(pd, bytes, sizeof bytes, 1 << 15));
  CHECK_NULL(EFAULT, ibv_reg_mr(pd, (void*)4096, 4096, local));
  CHECK_NULL(EINVAL, ibv_reg_mr_iova(pd, bytes, 16, (uintptr_t)bytes + 1, local));
  CHECK_NULL(EBADF, ibv_reg_dmabuf_mr(pd, 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE));

  struct ibv_mr* mr = ibv_reg_mr(pd, bytes, sizeof bytes, local | IBV_ACCESS_RELAXED_ORDERING);
  CHECK(mr != NULL && mr->addr == bytes && mr->length == sizeof bytes && mr->pd == pd);
  CHECK(ibv_dealloc_pd(pd) == EBUSY);
  CHECK(ibv_dereg_mr(mr) == 0);
}

static void test_completion_queue(struct ibv_context* context) {
  struct ibv_device_attr device;
  CHECK(ibv_query_device(context, &device) == 0);
  CHECK_NULL(EINVAL, ibv_create_cq(context, 0, NULL, NULL, 0));
  CHECK_NULL(EINVAL, ibv_create_cq(context, -1, NULL, NULL, 0));
  CHECK_NULL(EINVAL, ibv_create_cq(context, device.max_cqe + 1, NULL, NULL, 0));
  CHECK_NULL(EINVAL, ibv_create_cq(context, 1, NULL, NULL, context->num_comp_vectors));

  struct ibv_comp_channel* channel = ibv_create_comp_channel(context);
  struct ibv_cq* cq = ibv_create_cq(context, 1, NULL, channel, 0);
  CHECK(cq != NULL);
  CHECK(ibv_destroy_comp_channel(channel) == EBUSY);
  CHECK(ibv_resize_cq(cq, 0) == EINVAL);
  CHECK(ibv_resize_cq(cq, device.max_cqe + 1) == EINVAL);
  CHECK(ibv_resize_cq(cq, 10) == 0 && cq->cqe >= 10);
  CHECK(ibv_destroy_cq(cq) == 0);
  CHECK(ibv_destroy_comp_channel(channel) == 0);
}

static void test_create_qp(struct ibv_pd* pd, struct ibv_cq* cq) {
  struct ibv_device_attr device;
  CHECK(ibv_query_device(pd->context, &device) == 0);
  const struct ibv_qp_init_attr good = {
      .send_cq = cq,
      .recv_cq = cq,
      .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
      .qp_type = IBV_QPT_RC,
  };
  struct ibv_qp_init_attr attr = good;
  attr.cap.max_send_wr = (uint32_t)device.max_qp_wr + 1;
  CHECK_NULL(EINVAL, ibv_create_qp(pd, &attr));
  attr = good;
  attr.cap.max_recv_sge = (uint32_t)device.max_sge + 1;
  CHECK_NULL(EINVAL, ibv_create_qp(pd, &attr));
  attr = good;
  attr.cap.max_inline_data = 1u << 20;
  CHECK_NULL(EINVAL, ibv_create_qp(pd, &attr));
  attr = good;
  attr.send_cq = NULL;
  CHECK_NULL(EINVAL, ibv_create_qp(pd, &attr));
  attr = good;
  attr.qp_type = IBV_QPT_DRIVER;
  CHECK_NULL(EOPNOTSUPP, ibv_create_qp(pd, &attr));
  attr.qp_type = IBV_QPT_XRC_RECV; /* needs an XRC domain */
  CHECK_NULL(EINVAL, ibv_create_qp(pd, &attr));

  struct ibv_qp_init_attr_ex extended = {
      .send_cq = cq,
      .recv_cq = cq,
      .cap = good.cap,
      .qp_type = IBV_QPT_RC,
      .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
      .pd = pd,
      .send_ops_flags = IBV_QP_EX_WITH_TSO,
  };
  CHECK_NULL(EOPNOTSUPP, ibv_create_qp_ex(pd->context, &extended));
}

static void test_address_handle(struct ibv_pd* pd) {
  union ibv_gid loopback;
  struct ibv_ah_attr attr = {.port_num = 1, .is_global = 1};
  attr.grh.sgid_index = (uint8_t)loopback_gid(pd->context, &loopback);
  attr.grh.dgid = loopback;
  struct ibv_ah* ah = ibv_create_ah(pd, &attr);
  CHECK(ah != NULL && ah->pd == pd);
  CHECK(ibv_dealloc_pd(pd) == EBUSY);
  CHECK(ibv_destroy_ah(ah) == 0);
  attr.port_num = 2;
  CHECK_NULL(EINVAL, ibv_create_ah(pd, &attr));
  attr.port_num = 1;
  attr.is_global = 0;
  for (attr.dlid = 0; attr.dlid < 2; ++attr.dlid) { /* RoCE has no LIDs */
    CHECK_NULL(EINVAL, ibv_create_ah(pd, &attr));
  }
  attr.is_global = 1;
  attr.grh.sgid_index = 200;
  CHECK_NULL(EINVAL, ibv_create_ah(pd, &attr));
}

static void test_shared_receive_queue(struct ibv_pd* pd) {
  struct ibv_device_attr device;
  CHECK(ibv_query_device(pd->context, &device) == 0);
  struct ibv_srq_init_attr init = {.attr = {.max_wr = 0, .max_sge = 1}};
  CHECK_NULL(EINVAL, ibv_create_srq(pd, &init));
  init.attr.max_wr = (uint32_t)device.max_srq_wr + 1;
  CHECK_NULL(EINVAL, ibv_create_srq(pd, &init));
  init.attr.max_wr = 4;
  init.attr.max_sge = (uint32_t)device.max_srq_sge + 1;
  CHECK_NULL(EINVAL, ibv_create_srq(pd, &init));
  init.attr.max_sge = 1;
  struct ibv_srq* srq = ibv_create_srq(pd, &init);
  CHECK(srq != NULL);
  struct ibv_srq_attr attr = {.srq_limit = 5};
  CHECK(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT) == EINVAL); /* more than it holds */
  attr.max_wr = 8;
  CHECK(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR) == EINVAL);
  uint32_t number;
  CHECK(ibv_get_srq_num(srq, &number) == EINVAL); /* not one for XRC */
  struct ibv_recv_wr receives[5] = {{0}};
  for (int i = 0; i < 4; ++i) receives[i].next = &receives[i + 1];
  struct ibv_recv_wr* bad = NULL;
  CHECK(ibv_post_srq_recv(srq, receives, &bad) == ENOMEM && bad == &receives[4]);
  CHECK(ibv_dealloc_pd(pd) == EBUSY);
  CHECK(ibv_destroy_srq(srq) == 0);
}

static void test_xrc_domain(struct ibv_context* context) {
  struct ibv_xrcd_init_attr attr = {.comp_mask = IBV_XRCD_INIT_ATTR_FD, .fd = -1};
  CHECK_NULL(EINVAL, ibv_open_xrcd(context, &attr));
  attr.comp_mask |= IBV_XRCD_INIT_ATTR_OFLAGS;
  CHECK_NULL(EINVAL, ibv_open_xrcd(context, &attr)); /* a new one needs O_CREAT */
  attr.fd = 1000000;
  CHECK_NULL(EBADF, ibv_open_xrcd(context, &attr));
  struct ibv_qp_open_attr open = {.comp_mask = IBV_QP_OPEN_ATTR_NUM};
  CHECK_NULL(EOPNOTSUPP, ibv_open_qp(context, &open));
}

static void test_modify_qp(struct ibv_qp* qp) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
  CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == EINVAL); /* RESET to RTS */
  const int init_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1};
  CHECK(ibv_modify_qp(qp, &attr, init_mask & ~IBV_QP_PORT) == EINVAL); /* incomplete */
  attr.port_num = 2;
  CHECK(ibv_modify_qp(qp, &attr, init_mask) == EINVAL);
  attr.port_num = 1;
  attr.pkey_index = 1;
  CHECK(ibv_modify_qp(qp, &attr, init_mask) == EINVAL);
  CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_CAP) == EINVAL);
  CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_RATE_LIMIT) == EOPNOTSUPP);
  CHECK(qp->state == IBV_QPS_RESET);
  to_init(qp);

  attr = rtr_attr(qp->context, 0x11);
  CHECK(ibv_modify_qp(qp, &attr, RTR_MASK | IBV_QP_SQ_PSN) == EINVAL); /* too much */
  attr.ah_attr.is_global = 0;
  CHECK(ibv_modify_qp(qp, &attr, RTR_MASK) == EINVAL); /* RoCE needs a GRH */
  attr = rtr_attr(qp->context, 0x11);
  attr.ah_attr.grh.sgid_index = 200;
  CHECK(ibv_modify_qp(qp, &attr, RTR_MASK) == EINVAL);
  attr = rtr_attr(qp->context, 0x11);
  attr.path_mtu = 6;
  CHECK(ibv_modify_qp(qp, &attr, RTR_MASK) == EINVAL);
  attr = rtr_attr(qp->context, 0x11);
  attr.max_dest_rd_atomic = 255;
  CHECK(ibv_modify_qp(qp, &attr, RTR_MASK) == EINVAL);
  CHECK(qp->state == IBV_QPS_INIT);
}

/* The queue pair is in INIT: receives are taken, sends are not. */
static void test_posting(struct ibv_qp* qp) {
  struct ibv_send_wr send = {.wr_id = 1, .opcode = IBV_WR_SEND};
  struct ibv_send_wr* bad_send = NULL;
  CHECK(ibv_post_send(qp, &send, &bad_send) == EINVAL && bad_send == &send);

  struct ibv_recv_wr receives[9]; /* one more than the queue holds */
  memset(receives, 0, sizeof receives);
  for (int i = 0; i < 8; ++i) receives[i].next = &receives[i + 1];
  struct ibv_recv_wr* bad_receive = NULL;
  CHECK(ibv_post_recv(qp, receives, &bad_receive) == ENOMEM && bad_receive == &receives[8]);

  struct ibv_sge sges[64];
  memset(sges, 0, sizeof sges);
  struct ibv_recv_wr wide = {.sg_list = sges, .num_sge = 3};
  CHECK(ibv_post_recv(qp, &wide, &bad_receive) == EINVAL && bad_receive == &wide);
  wide.num_sge = 64;
  CHECK(ibv_post_recv(qp, &wide, &bad_receive) == EINVAL);
}

static void test_queries(struct ibv_context* context) {
  struct ibv_port_attr port;
  union ibv_gid gid;
  struct ibv_gid_entry entry;
  __be16 pkey;
  CHECK(ibv_query_port(context, 2, &port) == EINVAL);
  CHECK(ibv_query_port(context, 1, &port) == 0);
  CHECK(ibv_query_gid(context, 1, port.gid_tbl_len, &gid) == -1);
  CHECK(ibv_query_gid_ex(context, 1, 0, &entry, 1) == EOPNOTSUPP);
  CHECK(ibv_query_gid_ex(context, 1, 0, &entry, 0) == 0);
  CHECK(entry.gid_type == IBV_GID_TYPE_ROCE_V2);
  struct ibv_gid_entry table[256];
  CHECK(ibv_query_gid_table(context, table, 0, 0) == -EINVAL);
  const ssize_t used = ibv_query_gid_table(context, table, 256, 0);
  CHECK(used > 0 && used < port.gid_tbl_len);
  /* An empty place is no error of ibv_query_gid's: zeros. */
  const uint32_t empty = (uint32_t)port.gid_tbl_len - 1;
  static const union ibv_gid kZeros;
  memset(&gid, 1, sizeof gid);
  CHECK(ibv_query_gid(context, 1, (int)empty, &gid) == 0);
  CHECK(memcmp(&gid, &kZeros, sizeof gid) == 0);
  CHECK(ibv_query_gid_ex(context, 1, empty, &entry, 0) == ENODATA);
  CHECK(ibv_query_gid_ex(context, 1, empty + 1, &entry, 0) == EINVAL);
  CHECK(ibv_query_pkey(context, 1, 1, &pkey) == -1);
  CHECK(ibv_query_pkey(context, 1, 0, &pkey) == 0 && pkey == 0xffff);
}

int main(void) {
  struct ibv_context* context = open_loopback();
  struct ibv_pd* pd = ibv_alloc_pd(context);
  struct ibv_cq* cq = ibv_create_cq(context, 16, NULL, NULL, 0);
  CHECK(pd != NULL && cq != NULL);
  test_queries(context);
  test_memory(pd);
  test_completion_queue(context);
  test_create_qp(pd, cq);
  test_address_handle(pd);
  test_shared_receive_queue(pd);
  test_xrc_domain(context);
  struct ibv_qp* qp = create_rc_qp(pd, cq);
  test_modify_qp(qp);
  test_posting(qp);
  CHECK(ibv_qp_to_qp_ex(qp) == NULL);
  CHECK(ibv_destroy_cq(cq) == EBUSY);
  CHECK(ibv_dealloc_pd(pd) == EBUSY);
  CHECK(ibv_destroy_qp(qp) == 0);
  CHECK(ibv_destroy_cq(cq) == 0);
  CHECK(ibv_dealloc_pd(pd) == 0);
  CHECK(ibv_close_device(context) == 0);
  return 0;
}
