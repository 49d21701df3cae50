/* Steps 1 to 3: a device, memory, two queue pairs from RESET to RTS. Lab two-qp explains the
 * states. */

#include <stdlib.h>
#include <time.h>

#include "labs/verbs/verbs.h"

enum { kDepth = 8, kPieces = 2, kPort = 1 };

static struct ibv_context* open_device(const char* name) {
  int count = 0;
  struct ibv_device** list = ibv_get_device_list(&count);
  lab_check(list != NULL, "ibv_get_device_list: %s", strerror(errno));
  struct ibv_context* context = NULL;
  for (int i = 0; i < count && context == NULL; ++i) {
    if (strcmp(ibv_get_device_name(list[i]), name) == 0) context = ibv_open_device(list[i]);
  }
  lab_check(context != NULL, "ibv_open_device: device %s: %s", name, strerror(errno));
  ibv_free_device_list(list); /* after the device was opened, not before */
  return context;
}

/* RoCE v2 and an IPv4 address if there is one: those are reached everywhere. */
static void choose_gid(struct verbs_pair* pair) {
  static const uint8_t kIpv4[12] = {[10] = 0xff, [11] = 0xff}; /* ::ffff:a.b.c.d */
  for (int i = pair->port.gid_tbl_len - 1; i >= 0; --i) {
    struct ibv_gid_entry row;
    if (ibv_query_gid_ex(pair->context, kPort, (uint32_t)i, &row, 0) != 0) continue; /* empty */
    const bool ipv4 = memcmp(pair->gid.raw, kIpv4, sizeof kIpv4) == 0;
    if (ipv4 && memcmp(row.gid.raw, kIpv4, sizeof kIpv4) != 0) continue;
    if (row.gid_type == IBV_GID_TYPE_ROCE_V1) continue;
    pair->gid = row.gid;
    pair->gid_index = (uint8_t)i;
  }
}

static void make_side(struct verbs_pair* pair, struct verbs_side* side, const char* name) {
  /* 2. Memory that the device may read and write, for whom, and how. */
  const size_t message = (pair->options->size + 7) / 8 * 8;
  side->name = name;
  side->length = 2 * message + sizeof(uint64_t);
  side->memory = aligned_alloc(4096, (side->length + 4095) / 4096 * 4096);
  lab_check(side->memory != NULL, "aligned_alloc: %s", strerror(errno));
  memset(side->memory, 0, side->length);
  unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  if (pair->device.atomic_cap != IBV_ATOMIC_NONE) access |= IBV_ACCESS_REMOTE_ATOMIC;
  side->mr = ibv_reg_mr(pair->pd, side->memory, side->length, access);
  lab_check(side->mr != NULL, "ibv_reg_mr: %s", strerror(errno));
  lab_say("   %-5s ibv_mr       .addr=%p .length=%zu .lkey=%#x .rkey=%#x", name, side->mr->addr,
          side->mr->length, side->mr->lkey, side->mr->rkey);

  /* 3. A queue pair. The device grants at least what we ask for, and says how much. */
  side->cq = ibv_create_cq(pair->context, 2 * kDepth, NULL, NULL, 0);
  lab_check(side->cq != NULL, "ibv_create_cq: %s", strerror(errno));
  struct ibv_qp_init_attr wish = {.send_cq = side->cq,
                                  .recv_cq = side->cq,
                                  .cap = {.max_send_wr = kDepth,
                                          .max_recv_wr = kDepth,
                                          .max_send_sge = kPieces,
                                          .max_recv_sge = kPieces},
                                  .qp_type = IBV_QPT_RC};
  side->qp = ibv_create_qp(pair->pd, &wish);
  lab_check(side->qp != NULL, "ibv_create_qp: %s", strerror(errno));
  side->cap = wish.cap;
  side->psn = (uint32_t)rand() & 0xffffff;
  struct ibv_qp_attr init = {
      .qp_state = IBV_QPS_INIT, .port_num = kPort, .qp_access_flags = access};
  LAB_VERB(ibv_modify_qp(side->qp, &init,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

static void connect_to(const struct verbs_pair* pair, struct verbs_side* side,
                       const struct verbs_side* peer) {
  const bool ethernet = pair->port.link_layer == IBV_LINK_LAYER_ETHERNET;
  struct ibv_qp_attr rtr = {
      .qp_state = IBV_QPS_RTR,
      .path_mtu = pair->port.active_mtu,
      .dest_qp_num = peer->qp->qp_num,
      .rq_psn = peer->psn,
      .max_dest_rd_atomic = 1, /* READs and atomics of the peer at a time */
      .min_rnr_timer = 12,     /* 0.64 ms */
      .ah_attr = {.port_num = kPort,
                  .is_global = ethernet,
                  .dlid = ethernet ? 0 : pair->port.lid,
                  .grh = {.dgid = pair->gid, .sgid_index = pair->gid_index, .hop_limit = 64}}};
  LAB_VERB(ibv_modify_qp(side->qp, &rtr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
  struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
                            .sq_psn = side->psn,
                            .timeout = 14, /* 67 ms */
                            .retry_cnt = 7,
                            .rnr_retry = 7,
                            .max_rd_atomic = 1};
  LAB_VERB(ibv_modify_qp(side->qp, &rts,
                         IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                             IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

void verbs_open(struct verbs_pair* pair, const struct lab_options* options) {
  /* 1. The device and what it can do, and a protection domain: what belongs together. */
  pair->options = options;
  pair->context = open_device(lab_device_name(options));
  LAB_VERB(ibv_query_device(pair->context, &pair->device));
  LAB_VERB(ibv_query_port(pair->context, kPort, &pair->port));
  choose_gid(pair);
  pair->pd = ibv_alloc_pd(pair->context);
  lab_check(pair->pd != NULL, "ibv_alloc_pd: %s", strerror(errno));
  lab_say(" 1 device %s, port %d; a protection domain", ibv_get_device_name(pair->context->device),
          kPort);
  srand((unsigned)time(NULL));
  lab_say(" 2 memory of two sides");
  make_side(pair, &pair->left, "left");
  make_side(pair, &pair->right, "right");
  connect_to(pair, &pair->left, &pair->right);
  connect_to(pair, &pair->right, &pair->left);
  const struct verbs_side* sides[] = {&pair->left, &pair->right};
  lab_say(" 3 two queue pairs, each the other's peer, in RTS");
  for (int i = 0; i < 2; ++i) {
    lab_say("   %-5s ibv_qp       .qp_num=%#x; granted: %u sends of %u pieces, %u receives of %u",
            sides[i]->name, sides[i]->qp->qp_num, sides[i]->cap.max_send_wr,
            sides[i]->cap.max_send_sge, sides[i]->cap.max_recv_wr, sides[i]->cap.max_recv_sge);
  }
}

void verbs_close(struct verbs_pair* pair) {
  /* 12. Whatever uses a thing goes before it. */
  struct verbs_side* sides[] = {&pair->left, &pair->right};
  for (int i = 0; i < 2; ++i) {
    LAB_VERB(ibv_destroy_qp(sides[i]->qp));
    LAB_VERB(ibv_destroy_cq(sides[i]->cq));
    LAB_VERB(ibv_dereg_mr(sides[i]->mr));
    free(sides[i]->memory);
  }
  LAB_VERB(ibv_dealloc_pd(pair->pd));
  LAB_VERB(ibv_close_device(pair->context));
  lab_say("12 QPs, CQs, MRs, PD, device: all gone");
}
