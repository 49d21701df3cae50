/* A peer that is stopped, and full, keeps nobody from another peer.
 *
 *   beside_stopped MESSAGES
 *
 * One process has a connection to each of two others. The first one stops. As many WRITEs to it are
 * posted as its send queue takes, more than any ring holds. Then MESSAGES WRITEs to the second one
 * complete. The first goes on, and what was posted to it completes, too.
 */
#include "two_ends.h"

enum { kBytes = 1 << 20 };

static struct end connect_end(int which, int of) {
  struct end e = {.context = open_loopback()};
  struct ibv_pd* pd = ibv_alloc_pd(e.context);
  e.cq = ibv_create_cq(e.context, kDepth, NULL, NULL, 0);
  e.memory = calloc(1, kBytes);
  CHECK(pd != NULL && e.cq != NULL && e.memory != NULL);
  e.mr = ibv_reg_mr(pd, e.memory, kBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  CHECK(e.mr != NULL);
  e.qp = create_deep_qp(pd, e.cq);
  to_init(e.qp);
  struct shared* s = &shared[of];
  if (which == 0) {
    s->address = (uintptr_t)e.memory;
    s->rkey = e.mr->rkey;
  }
  s->qpn[which] = e.qp->qp_num;
  while (s->qpn[1 - which] == 0) pause_or_give_up();
  struct ibv_qp_attr attr = rtr_attr(e.context, s->qpn[1 - which]);
  attr.path_mtu = IBV_MTU_4096;
  CHECK(ibv_modify_qp(e.qp, &attr, RTR_MASK) == 0);
  struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
                            .sq_psn = 0x123456,
                            .timeout = 21, /* 8.6 s: nobody is given up */
                            .retry_cnt = 7,
                            .rnr_retry = 7,
                            .max_rd_atomic = 4};
  CHECK(ibv_modify_qp(e.qp, &rts,
                      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                          IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
  ++s->ready;
  while (s->ready != 2) pause_or_give_up();
  return e;
}

static pid_t start_target(int of) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child > 0) return child;
  CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
  connect_end(0, of);
  while (!shared[of].over) pause_or_give_up();
  _exit(0);
}

static void write_one(struct end* e, int of) {
  struct ibv_sge sge = {(uintptr_t)e->memory, kBytes, e->mr->lkey};
  struct ibv_send_wr wr = {.sg_list = &sge,
                           .num_sge = 1,
                           .opcode = IBV_WR_RDMA_WRITE,
                           .send_flags = IBV_SEND_SIGNALED,
                           .wr.rdma = {shared[of].address, shared[of].rkey}},
                     *bad;
  CHECK(ibv_post_send(e->qp, &wr, &bad) == 0);
}

int main(int argc, char** argv) {
  const int messages = argc == 2 ? atoi(argv[1]) : 0;
  if (messages <= 0) return fprintf(stderr, "usage: beside_stopped MESSAGES\n"), 2;
  limit = time(NULL) + kPatience;
  shared =
      mmap(NULL, 2 * sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  const pid_t targets[2] = {start_target(0), start_target(1)};
  struct end to[2] = {connect_end(1, 0), connect_end(1, 1)};
  for (int i = 0; i < 2; ++i) { /* both take part */
    write_one(&to[i], i);
    while (poll_some(&to[i]) == 0) {
    }
  }

  CHECK(kill(targets[0], SIGSTOP) == 0);
  int status = 0;
  CHECK(waitpid(targets[0], &status, WUNTRACED) == targets[0] && WIFSTOPPED(status));
  for (int i = 0; i < kDepth; ++i) write_one(&to[0], 0);
  int stopped = kDepth;
  for (int i = 0; i < messages; ++i) {
    write_one(&to[1], 1);
    while (poll_some(&to[1]) == 0) stopped -= poll_some(&to[0]);
  }
  CHECK(stopped == kDepth); /* it took part in nothing meanwhile */
  CHECK(kill(targets[0], SIGCONT) == 0);
  while (stopped > 0) stopped -= poll_some(&to[0]);

  for (int i = 0; i < 2; ++i) {
    shared[i].over = true;
    CHECK(waitpid(targets[i], &status, 0) == targets[i] && status == 0);
  }
  printf("%d messages beside a peer that is stopped, %d afterwards to it\n", messages, kDepth);
  return 0;
}
