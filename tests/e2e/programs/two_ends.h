/* Two processes on 127.0.0.1 with a reliable connection between them: fork_ends() makes the second
 * one, open_end() connects each. They tell each other the rest through `shared`. */
#pragma once

#define _GNU_SOURCE
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../abi/abi.h"

enum { kPatience = 120 /* seconds, for all of it */, kDepth = 64 /* of the send queue */ };

/* What the two processes tell each other without the network. */
struct shared {
  _Atomic uint32_t qpn[2];
  _Atomic uint64_t address; /* of the target's memory */
  _Atomic uint32_t rkey;
  _Atomic int ready; /* ends that can send and receive */
  _Atomic uint64_t asked, answered;
  _Atomic bool over;
};

static struct shared* shared;
static time_t limit;

static inline void pause_or_give_up(void) {
  CHECK(time(NULL) < limit);
  usleep(50);
}

/* Before open_end(). In the second process, which dies with the first, it is 0. */
static inline pid_t fork_ends(void) {
  limit = time(NULL) + kPatience;
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  const pid_t other = fork();
  CHECK(other >= 0);
  if (other == 0) CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
  return other;
}

/* The exit status of the first process. */
static inline int join_ends(pid_t other) {
  int status = 0;
  CHECK(waitpid(other, &status, 0) == other);
  return status == 0 ? 0 : 1;
}

struct end {
  struct ibv_context* context;
  struct ibv_cq* cq;
  struct ibv_qp* qp;
  struct ibv_mr* mr;
  uint8_t* memory;
};

static inline struct ibv_qp* create_deep_qp(struct ibv_pd* pd, struct ibv_cq* cq) {
  struct ibv_qp_init_attr init = {
      .send_cq = cq,
      .recv_cq = cq,
      .cap = {.max_send_wr = kDepth, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
      .qp_type = IBV_QPT_RC,
  };
  struct ibv_qp* qp = ibv_create_qp(pd, &init);
  CHECK(qp != NULL);
  return qp;
}

/* With packets of 4 KiB: the larger a copy, the more of it there is to see. */
static inline void connect_to(struct ibv_qp* qp, uint32_t peer) {
  struct ibv_qp_attr attr = rtr_attr(qp->context, peer);
  attr.path_mtu = IBV_MTU_4096;
  CHECK(ibv_modify_qp(qp, &attr, RTR_MASK) == 0);
  to_rts_from_rtr(qp);
}

/* `which`: 0 has the memory that the other one writes and reads. */
static inline struct end open_end(int which, size_t size) {
  struct end e = {.context = open_loopback()};
  struct ibv_pd* pd = ibv_alloc_pd(e.context);
  CHECK(pd != NULL);
  e.cq = ibv_create_cq(e.context, kDepth, NULL, NULL, 0);
  CHECK(e.cq != NULL);
  e.memory = calloc(1, size);
  e.mr = ibv_reg_mr(pd, e.memory, size,
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  CHECK(e.memory != NULL && e.mr != NULL);
  e.qp = create_deep_qp(pd, e.cq);
  to_init(e.qp);
  if (which == 0) {
    shared->address = (uintptr_t)e.memory;
    shared->rkey = e.mr->rkey;
  }
  shared->qpn[which] = e.qp->qp_num;
  while (shared->qpn[1 - which] == 0) pause_or_give_up();
  connect_to(e.qp, shared->qpn[1 - which]);
  ++shared->ready;
  while (shared->ready != 2) pause_or_give_up();
  return e;
}

/* At both ends' memory + `offset`. */
static inline void post_one(struct end* e, enum ibv_wr_opcode opcode, size_t offset,
                            uint32_t size) {
  struct ibv_sge sge = {(uintptr_t)e->memory + offset, size, e->mr->lkey};
  struct ibv_send_wr wr = {.sg_list = &sge,
                           .num_sge = 1,
                           .opcode = opcode,
                           .send_flags = IBV_SEND_SIGNALED,
                           .wr.rdma = {shared->address + offset, shared->rkey}};
  struct ibv_send_wr* bad = NULL;
  CHECK(ibv_post_send(e->qp, &wr, &bad) == 0);
}

/* How many of them have completed since the last call; all well. */
static inline int poll_some(struct end* e) {
  struct ibv_wc wc[kDepth];
  const int n = ibv_poll_cq(e->cq, kDepth, wc);
  CHECK(n >= 0 && (n > 0 || time(NULL) < limit));
  for (int i = 0; i < n; ++i) CHECK(wc[i].status == IBV_WC_SUCCESS);
  return n;
}
