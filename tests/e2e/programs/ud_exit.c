/* A sender of datagrams that is gone as soon as it has its completions: the datagrams arrive.
 *
 *   ud_exit ROUNDS
 *
 * Each round's sender is a process of its own; it ends by exit(), _exit() or SIGKILL in turn. */
#include "two_ends.h"

enum { kDatagrams = 24, kMost = 2000, kGrh = 40, kKey = 0x11111111 };

static void to_ready(struct ibv_qp* qp) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = kKey};
  CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) ==
        0);
  attr.qp_state = IBV_QPS_RTR;
  CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
  attr.qp_state = IBV_QPS_RTS;
  CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
}

static struct end open_ud(size_t size) {
  struct end e = {.context = open_loopback()};
  struct ibv_pd* pd = ibv_alloc_pd(e.context);
  CHECK(pd != NULL);
  e.cq = ibv_create_cq(e.context, kDepth, NULL, NULL, 0);
  e.memory = calloc(1, size);
  CHECK(e.cq != NULL && e.memory != NULL);
  e.mr = ibv_reg_mr(pd, e.memory, size, IBV_ACCESS_LOCAL_WRITE);
  CHECK(e.mr != NULL);
  struct ibv_qp_init_attr init = {
      .send_cq = e.cq,
      .recv_cq = e.cq,
      .cap = {kDatagrams, kDepth, 1, 1, 0},
      .qp_type = IBV_QPT_UD,
  };
  e.qp = ibv_create_qp(pd, &init);
  CHECK(e.qp != NULL);
  to_ready(e.qp);
  return e;
}

static uint8_t mark_of(uint64_t round, int i) { return (uint8_t)(round * 31 + (uint64_t)i + 1); }
static uint32_t size_of(uint64_t round, int i) {
  return (uint32_t)((round * 97 + (uint64_t)i * 83) % kMost + 1);
}

static void send_and_go(uint64_t round) {
  struct end e = open_ud((size_t)kDatagrams * kMost);
  struct ibv_ah_attr to = rtr_attr(e.context, 0).ah_attr;
  struct ibv_ah* ah = ibv_create_ah(e.mr->pd, &to);
  CHECK(ah != NULL);
  for (int i = 0; i < kDatagrams; ++i) {
    uint8_t* const bytes = e.memory + (size_t)i * kMost;
    memset(bytes, mark_of(round, i), kMost);
    struct ibv_sge sge = {(uintptr_t)bytes, size_of(round, i), e.mr->lkey};
    struct ibv_send_wr* bad = NULL;
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.ud = {ah, shared->qpn[0], kKey}};
    CHECK(ibv_post_send(e.qp, &wr, &bad) == 0);
  }
  for (int sent = 0; sent < kDatagrams;) sent += poll_some(&e);
  if (round % 3 == 0) exit(0);
  if (round % 3 == 1) _exit(0);
  CHECK(kill(getpid(), SIGKILL) == 0);
}

static uint8_t* place(const struct end* e, int i) { return e->memory + (size_t)i * (kGrh + kMost); }

static void post_place(struct end* e, int i) {
  struct ibv_sge sge = {(uintptr_t)place(e, i), kGrh + kMost, e->mr->lkey};
  struct ibv_recv_wr* bad = NULL;
  struct ibv_recv_wr wr = {.wr_id = (uint64_t)i, .sg_list = &sge, .num_sge = 1};
  CHECK(ibv_post_recv(e->qp, &wr, &bad) == 0);
}

static void receive_all(struct end* e, uint64_t round) {
  for (int i = 0; i < kDatagrams;) {
    struct ibv_wc wc;
    const int n = ibv_poll_cq(e->cq, 1, &wc);
    CHECK(n >= 0);
    if (n == 0 && time(NULL) >= limit) {
      fprintf(stderr, "round %llu: %d of %d datagrams came\n", (unsigned long long)round, i,
              kDatagrams);
      exit(1);
    }
    if (n == 0) continue;
    CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == kGrh + size_of(round, i));
    const uint8_t* const bytes = place(e, (int)wc.wr_id) + kGrh;
    for (uint32_t b = 0; b < size_of(round, i); ++b) CHECK(bytes[b] == mark_of(round, i));
    post_place(e, (int)wc.wr_id);
    ++i;
  }
}

int main(int argc, char** argv) {
  if (argc != 2) return fprintf(stderr, "ud_exit ROUNDS\n"), 2;
  const uint64_t rounds = strtoull(argv[1], NULL, 10);
  CHECK(rounds > 0);
  /* The process that starts the senders has no device: each begins afresh. */
  const pid_t senders = fork_ends();
  if (senders == 0) {
    for (uint64_t round = 0; round < rounds; ++round) {
      while (shared->asked <= round) pause_or_give_up();
      const pid_t sender = fork();
      CHECK(sender >= 0);
      if (sender == 0) send_and_go(round);
      int status = 0;
      CHECK(waitpid(sender, &status, 0) == sender);
      CHECK(round % 3 == 2 ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : status == 0);
    }
    return 0;
  }
  struct end e = open_ud((size_t)kDepth * (kGrh + kMost));
  for (int i = 0; i < kDepth; ++i) post_place(&e, i);
  shared->qpn[0] = e.qp->qp_num;
  for (uint64_t round = 0; round < rounds; ++round) {
    limit = time(NULL) + 10; /* of this round */
    shared->asked = round + 1;
    receive_all(&e, round);
  }
  printf("%llu senders gone at once, each with %d datagrams that arrived\n",
         (unsigned long long)rounds, kDatagrams);
  return join_ends(senders);
}
