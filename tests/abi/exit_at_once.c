/* A process that takes a message of each of its queue pairs and ends at once, with _exit() or
 * quick_exit(): its peer must still hear that the messages came. Both poll, so nobody else is there
 * to send the acknowledgements. */

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi.h"

enum { kRounds = 6, kPairs = 20, kPings = 100, kSize = 64 };

struct end {
  struct ibv_context* context;
  struct ibv_pd* pd;
  struct ibv_cq* cq;
  struct ibv_qp* qp[kPairs];
  struct ibv_mr* mr;
  int sent; /* completions of sends */
  char memory[kSize];
};

static void open_end(struct end* e, int socket) {
  e->context = open_loopback();
  e->pd = ibv_alloc_pd(e->context);
  CHECK(e->pd != NULL);
  e->cq = ibv_create_cq(e->context, 4 * kPairs, NULL, NULL, 0);
  CHECK(e->cq != NULL);
  e->mr = ibv_reg_mr(e->pd, e->memory, kSize, IBV_ACCESS_LOCAL_WRITE);
  CHECK(e->mr != NULL);
  for (int i = 0; i < kPairs; ++i) {
    e->qp[i] = create_rc_qp(e->pd, e->cq);
    to_init(e->qp[i]);
    uint32_t peer = 0;
    CHECK(write(socket, &e->qp[i]->qp_num, sizeof peer) == sizeof peer);
    CHECK(read(socket, &peer, sizeof peer) == sizeof peer);
    to_rts(e->qp[i], peer);
  }
}

static void expect(struct end* e, int pair) {
  struct ibv_sge sge = {(uintptr_t)e->memory, kSize, e->mr->lkey};
  struct ibv_recv_wr wr = {.wr_id = (uint64_t)pair, .sg_list = &sge, .num_sge = 1};
  struct ibv_recv_wr* bad = NULL;
  CHECK(ibv_post_recv(e->qp[pair], &wr, &bad) == 0);
}

static void expect_all(struct end* e) {
  for (int i = 0; i < kPairs; ++i) expect(e, i);
}

static void say(struct end* e, int pair) {
  struct ibv_sge sge = {(uintptr_t)e->memory, kSize, e->mr->lkey};
  struct ibv_send_wr wr = {
      .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
  struct ibv_send_wr* bad = NULL;
  CHECK(ibv_post_send(e->qp[pair], &wr, &bad) == 0);
}

/* The pair whose message came, or -1: a send was completed. */
static int wait_for_any(struct end* e) {
  const time_t limit = time(NULL) + 30;
  struct ibv_wc wc;
  int n = 0;
  while (n == 0) {
    n = ibv_poll_cq(e->cq, 1, &wc);
    CHECK(n >= 0 && time(NULL) < limit);
  }
  CHECK(wc.status == IBV_WC_SUCCESS);
  if (wc.opcode == IBV_WC_RECV) return (int)wc.wr_id;
  ++e->sent;
  return -1;
}

static int wait_for_message(struct end* e) {
  int pair = -1;
  while (pair < 0) pair = wait_for_any(e);
  return pair;
}

static void meet(int socket) { /* both have posted */
  char c = 1;
  CHECK(write(socket, &c, 1) == 1 && read(socket, &c, 1) == 1);
}

static void child(int socket, void (*end)(int)) {
  struct end e = {0};
  open_end(&e, socket);
  expect_all(&e);
  meet(socket);
  for (int i = 0; i < kPings * kPairs; ++i) {
    const int pair = wait_for_message(&e);
    expect(&e, pair);
    say(&e, pair);
  }
  for (int i = 0; i < kPairs; ++i) wait_for_message(&e);
  end(0);
}

static void parent(int socket) {
  struct end e = {0};
  open_end(&e, socket);
  expect_all(&e);
  meet(socket);
  for (int i = 0; i < kPings * kPairs; ++i) {
    say(&e, i % kPairs);
    expect(&e, wait_for_message(&e));
  }
  for (int i = 0; i < kPairs; ++i) say(&e, i);
  while (e.sent < (kPings + 1) * kPairs) wait_for_any(&e);
}

int main(void) {
  for (int round = 0; round < kRounds; ++round) {
    const pid_t sender = fork(); /* each round in a fresh pair of processes */
    CHECK(sender >= 0);
    if (sender == 0) {
      int sockets[2];
      CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
      const pid_t receiver = fork();
      CHECK(receiver >= 0);
      if (receiver == 0) child(sockets[1], round % 2 == 0 ? _exit : quick_exit);
      parent(sockets[0]);
      int status = 0;
      CHECK(waitpid(receiver, &status, 0) == receiver && status == 0);
      return 0;
    }
    int status = 0;
    CHECK(waitpid(sender, &status, 0) == sender);
    CHECK(status == 0);
  }
  return 0;
}
