/* fork() without exec() in the middle of traffic: both processes use the device afterwards.
 *
 *   fork_in_traffic ROUNDS
 *
 *   peer <=== WRITEs, checked ===> parent
 *     ^                              | fork()
 *     +======= WRITEs, checked ===> child, over a connection of its own
 *
 * The child first does what it likes with the queue pair that it inherited: it posts to it, polls,
 * destroys it. None of that may reach the peer, or harm the parent's traffic, which goes on all the
 * time. Each message counts up, so one that is lost, comes twice or comes from the child is seen.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>

#include "two_ends.h"

enum { kMessage = 30011, kStray = 0x77 };

/* Of one connection: the peer answers each message by counting. */
struct lane {
  _Atomic uint32_t qpn[2], rkey;
  _Atomic uint64_t address;
  _Atomic uint64_t seen; /* messages that were right */
  _Atomic bool ready, over;
};

static struct lane* lanes; /* 0: the parent's; 1: the child's */

static void* share(size_t size) {
  void* p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(p != MAP_FAILED);
  return p;
}

static struct end open_lane(struct lane* lane, int which) {
  struct end e = {.context = open_loopback()};
  struct ibv_pd* pd = ibv_alloc_pd(e.context);
  CHECK(pd != NULL);
  e.cq = ibv_create_cq(e.context, kDepth, NULL, NULL, 0);
  e.memory = calloc(1, kMessage);
  CHECK(e.cq != NULL && e.memory != NULL);
  e.mr = ibv_reg_mr(pd, e.memory, kMessage, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  CHECK(e.mr != NULL);
  e.qp = create_deep_qp(pd, e.cq);
  to_init(e.qp);
  if (which == 0) {
    lane->address = (uintptr_t)e.memory;
    lane->rkey = e.mr->rkey;
  }
  lane->qpn[which] = e.qp->qp_num;
  while (lane->qpn[1 - which] == 0) pause_or_give_up();
  connect_to(e.qp, lane->qpn[1 - which]);
  return e;
}

/* ---------------------------------------------------------------- the peer */

static void* watch_lane(void* argument) {
  struct lane* lane = argument;
  struct end e = open_lane(lane, 0);
  lane->ready = true;
  const volatile uint8_t* const last = e.memory + kMessage - 1;
  for (uint64_t number = 1;; ++number) {
    while (*last != (uint8_t)number) {
      if (lane->over && lane->seen == number - 1) return NULL;
      CHECK(time(NULL) < limit);
      sched_yield();
    }
    atomic_thread_fence(memory_order_acquire);
    for (size_t i = 0; i < kMessage; ++i) CHECK(e.memory[i] == (uint8_t)number);
    lane->seen = number;
  }
}

static void be_the_peer(void) {
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) {
    CHECK(pthread_create(&threads[i], NULL, watch_lane, &lanes[i]) == 0);
  }
  for (int i = 0; i < 2; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
}

/* ---------------------------------------------------------------- parent and child */

static void write_one(struct end* e, struct lane* lane, uint8_t mark, bool wait) {
  memset(e->memory, mark, kMessage);
  struct ibv_sge sge = {(uintptr_t)e->memory, kMessage, e->mr->lkey};
  struct ibv_send_wr* bad = NULL;
  struct ibv_send_wr wr = {.sg_list = &sge,
                           .num_sge = 1,
                           .opcode = IBV_WR_RDMA_WRITE,
                           .send_flags = IBV_SEND_SIGNALED,
                           .wr.rdma = {lane->address, lane->rkey}};
  const int posted = ibv_post_send(e->qp, &wr, &bad);
  if (!wait) return; /* by a child, on what it inherited: it may be refused */
  CHECK(posted == 0);
  while (poll_some(e) == 0) continue;
}

static void write_many(struct end* e, struct lane* lane, int count) {
  for (int i = 0; i < count; ++i) {
    const uint64_t number = lane->seen + 1;
    write_one(e, lane, (uint8_t)number, true);
    while (lane->seen < number) {
      CHECK(time(NULL) < limit);
      sched_yield();
    }
  }
}

struct writer {
  struct end* end;
  _Atomic int children; /* that are still to come */
};

/* The parent's traffic, by a thread that goes on as it forks. */
static void* write_on(void* argument) {
  struct writer* w = argument;
  while (w->children > 0) write_many(w->end, &lanes[0], 1);
  return NULL;
}

static void be_a_child(struct end* inherited, int rounds) {
  CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
  struct ibv_wc wc;
  write_one(inherited, &lanes[0], kStray, false);
  (void)ibv_poll_cq(inherited->cq, 1, &wc);
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
  (void)ibv_modify_qp(inherited->qp, &attr, IBV_QP_STATE);
  (void)ibv_destroy_qp(inherited->qp);
  (void)ibv_dereg_mr(inherited->mr);
  struct end e = open_lane(&lanes[1], 1);
  while (!lanes[1].ready) pause_or_give_up();
  write_many(&e, &lanes[1], rounds);
  lanes[1].over = true;
  exit(0);
}

int main(int argc, char** argv) {
  if (argc != 2) return fprintf(stderr, "fork_in_traffic ROUNDS\n"), 2;
  const int rounds = atoi(argv[1]);
  CHECK(rounds > 0);
  lanes = share(2 * sizeof *lanes);
  const pid_t peer = fork_ends();
  if (peer == 0) {
    be_the_peer();
    return 0;
  }
  struct end e = open_lane(&lanes[0], 1);
  while (!lanes[0].ready) pause_or_give_up();
  struct writer writer = {&e, 1};
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, write_on, &writer) == 0);
  while (lanes[0].seen < 10) pause_or_give_up();
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) be_a_child(&e, rounds);
  const uint64_t before = lanes[0].seen;
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  writer.children = 0;
  CHECK(pthread_join(thread, NULL) == 0);
  write_many(&e, &lanes[0], rounds);
  printf("%llu messages of the parent, %d of the child\n",
         (unsigned long long)(lanes[0].seen - before), rounds);
  lanes[0].over = true;
  return join_ends(peer);
}
