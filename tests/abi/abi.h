/* What the programs of this folder share: they use the device as any program does, through
 * <infiniband/verbs.h> and nothing else, on the loopback interface. */
#pragma once

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEVICE "vb_lo"

#ifdef __SANITIZE_THREAD__
/* A forked child may open a device of its own, which starts a thread. ThreadSanitizer would end a
 * child that does so; this lets it live, unwatched. The parent is watched as ever. */
__attribute__((visibility("default"))) const char* __tsan_default_options(void);
const char* __tsan_default_options(void) { return "die_after_fork=0"; }
#endif

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: not so: %s (errno %d, %s)\n", __FILE__, __LINE__, #condition, errno, \
              strerror(errno));                                                                    \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

#define FAIL(what)                                              \
  do {                                                          \
    fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, (what)); \
    exit(1);                                                    \
  } while (0)

/* A call that must return NULL with this errno. */
#define CHECK_NULL(code, call) \
  do {                         \
    errno = 0;                 \
    CHECK((call) == NULL);     \
    CHECK(errno == (code));    \
  } while (0)

static inline struct ibv_context* open_loopback(void) {
  int count = 0;
  struct ibv_device** list = ibv_get_device_list(&count);
  CHECK(list != NULL);
  struct ibv_context* context = NULL;
  for (int i = 0; i < count && context == NULL; ++i) {
    if (strcmp(ibv_get_device_name(list[i]), DEVICE) == 0) context = ibv_open_device(list[i]);
  }
  CHECK(context != NULL);
  ibv_free_device_list(list);
  return context;
}

/* The index of 127.0.0.1 in the GID table. */
static inline int loopback_gid(struct ibv_context* context, union ibv_gid* gid) {
  static const uint8_t kWanted[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
  struct ibv_port_attr port;
  CHECK(ibv_query_port(context, 1, &port) == 0);
  for (int i = 0; i < port.gid_tbl_len; ++i) {
    CHECK(ibv_query_gid(context, 1, i, gid) == 0);
    if (memcmp(gid->raw, kWanted, sizeof kWanted) == 0) return i;
  }
  FAIL("127.0.0.1 is not in the GID table");
}

static inline struct ibv_qp* create_rc_qp(struct ibv_pd* pd, struct ibv_cq* cq) {
  struct ibv_qp_init_attr init = {
      .send_cq = cq,
      .recv_cq = cq,
      .cap = {.max_send_wr = 8,
              .max_recv_wr = 8,
              .max_send_sge = 2,
              .max_recv_sge = 2,
              .max_inline_data = 64},
      .qp_type = IBV_QPT_RC,
  };
  struct ibv_qp* qp = ibv_create_qp(pd, &init);
  CHECK(qp != NULL);
  return qp;
}

static inline void to_init(struct ibv_qp* qp) {
  struct ibv_qp_attr attr = {
      .qp_state = IBV_QPS_INIT,
      .port_num = 1,
      .qp_access_flags =
          IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
  };
  CHECK(ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
}

#define RTR_MASK                                                                  \
  (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | \
   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)

static inline struct ibv_qp_attr rtr_attr(struct ibv_context* context, uint32_t peer) {
  struct ibv_qp_attr attr = {
      .qp_state = IBV_QPS_RTR,
      .path_mtu = IBV_MTU_1024,
      .dest_qp_num = peer,
      .rq_psn = 0x123456,
      .max_dest_rd_atomic = 4,
      .min_rnr_timer = 12,
      .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}},
  };
  attr.ah_attr.grh.sgid_index = (uint8_t)loopback_gid(context, &attr.ah_attr.grh.dgid);
  return attr;
}

static inline void to_rts_from_rtr(struct ibv_qp* qp) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
                             .sq_psn = 0x123456,
                             .timeout = 14,
                             .retry_cnt = 7,
                             .rnr_retry = 7,
                             .max_rd_atomic = 4};
  CHECK(ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                          IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static inline void to_rts(struct ibv_qp* qp, uint32_t peer) {
  struct ibv_qp_attr attr = rtr_attr(qp->context, peer);
  CHECK(ibv_modify_qp(qp, &attr, RTR_MASK) == 0);
  CHECK(qp->state == IBV_QPS_RTR);
  to_rts_from_rtr(qp);
}

/* Two queue pairs of one process, connected to each other over 127.0.0.1. */
struct pair {
  struct ibv_context* context;
  struct ibv_pd* pd;
  struct ibv_comp_channel* channel;
  struct ibv_cq* cq;
  struct ibv_qp* qp[2];
  struct ibv_mr* mr;
  char* memory; /* 64 KiB */
};

enum { kMemory = 65536 };

static inline struct pair connect_pair(void) {
  struct pair p = {.context = open_loopback()};
  p.pd = ibv_alloc_pd(p.context);
  CHECK(p.pd != NULL);
  p.channel = ibv_create_comp_channel(p.context);
  CHECK(p.channel != NULL);
  p.cq = ibv_create_cq(p.context, 64, &p, p.channel, 0);
  CHECK(p.cq != NULL && p.cq->cqe >= 64);
  p.memory = calloc(1, kMemory);
  p.mr = ibv_reg_mr(p.pd, p.memory, kMemory,
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                        IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND);
  CHECK(p.mr != NULL);
  for (int i = 0; i < 2; ++i) p.qp[i] = create_rc_qp(p.pd, p.cq);
  for (int i = 0; i < 2; ++i) to_init(p.qp[i]);
  for (int i = 0; i < 2; ++i) to_rts(p.qp[i], p.qp[1 - i]->qp_num);
  return p;
}

static inline void destroy_pair(struct pair* p) {
  for (int i = 0; i < 2; ++i) CHECK(ibv_destroy_qp(p->qp[i]) == 0);
  CHECK(ibv_destroy_cq(p->cq) == 0);
  CHECK(ibv_destroy_comp_channel(p->channel) == 0);
  CHECK(ibv_dereg_mr(p->mr) == 0);
  CHECK(ibv_dealloc_pd(p->pd) == 0);
  CHECK(ibv_close_device(p->context) == 0);
  free(p->memory);
}

static inline struct ibv_sge sge_of(const struct pair* p, size_t offset, uint32_t length) {
  return (struct ibv_sge){(uintptr_t)p->memory + offset, length, p->mr->lkey};
}

static inline void post_receive(const struct pair* p, int on, uint64_t id, size_t offset,
                                uint32_t length) {
  struct ibv_sge sge = sge_of(p, offset, length);
  struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1};
  struct ibv_recv_wr* bad = NULL;
  CHECK(ibv_post_recv(p->qp[on], &wr, &bad) == 0);
}

/* Waits five seconds at most. */
static inline struct ibv_wc next_completion(struct ibv_cq* cq) {
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  do {
    struct ibv_wc wc;
    const int n = ibv_poll_cq(cq, 1, &wc);
    CHECK(n >= 0);
    if (n == 1) return wc;
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (now.tv_sec - start.tv_sec < 5);
  FAIL("no completion within five seconds");
}

/* A signaled request of one queue pair, and how it ends. */
static inline enum ibv_wc_status send_and_wait(struct ibv_cq* cq, struct ibv_qp* qp,
                                               struct ibv_send_wr wr) {
  struct ibv_send_wr* bad = NULL;
  wr.send_flags |= IBV_SEND_SIGNALED;
  CHECK(ibv_post_send(qp, &wr, &bad) == 0);
  const struct ibv_wc wc = next_completion(cq);
  CHECK(wc.wr_id == wr.wr_id && wc.qp_num == qp->qp_num);
  return wc.status;
}
