/* Who makes progress, and in which order bytes appear: two processes on 127.0.0.1.
 *
 *   progress order ROUNDS SIZE   WRITEs of SIZE bytes: a thread watches the last byte, and when it
 * is there, all others must be. Another thread polls, so that copies are made while the first one
 * looks. progress compute ROUNDS      READs from a process that only computes: they are served.
 *   progress quiet ROUNDS        the same of a process that has just polled for 3 ms, and then
 * stops.
 *
 * Prints what it saw; the last two the median of a READ in microseconds. Exit status 0: it held. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../abi/abi.h"

enum { kPatience = 120 /* seconds, for all of it */, kPolling = 3000 /* microseconds */ };

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

static void pause_or_give_up(void) {
  CHECK(time(NULL) < limit);
  usleep(50);
}

static double microseconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

struct end {
  struct ibv_context* context;
  struct ibv_cq* cq;
  struct ibv_qp* qp;
  struct ibv_mr* mr;
  uint8_t* memory;
};

/* With packets of 4 KiB: the larger a copy, the more of it there is to see. */
static void connect_to(struct ibv_qp* qp, uint32_t peer) {
  struct ibv_qp_attr attr = rtr_attr(qp->context, peer);
  attr.path_mtu = IBV_MTU_4096;
  CHECK(ibv_modify_qp(qp, &attr, RTR_MASK) == 0);
  to_rts_from_rtr(qp);
}

static struct end open_end(int which, size_t size) {
  struct end e = {.context = open_loopback()};
  struct ibv_pd* pd = ibv_alloc_pd(e.context);
  CHECK(pd != NULL);
  e.cq = ibv_create_cq(e.context, 16, NULL, NULL, 0);
  CHECK(e.cq != NULL);
  e.memory = calloc(1, size);
  e.mr = ibv_reg_mr(pd, e.memory, size,
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  CHECK(e.memory != NULL && e.mr != NULL);
  e.qp = create_rc_qp(pd, e.cq);
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

static void do_one(struct end* e, enum ibv_wr_opcode opcode, uint32_t size) {
  struct ibv_sge sge = {(uintptr_t)e->memory, size, e->mr->lkey};
  struct ibv_send_wr wr = {.sg_list = &sge,
                           .num_sge = 1,
                           .opcode = opcode,
                           .send_flags = IBV_SEND_SIGNALED,
                           .wr.rdma = {shared->address, shared->rkey}};
  struct ibv_send_wr* bad = NULL;
  CHECK(ibv_post_send(e->qp, &wr, &bad) == 0);
  struct ibv_wc wc;
  int n = 0;
  while (n == 0) {
    n = ibv_poll_cq(e->cq, 1, &wc);
    CHECK(n >= 0 && time(NULL) < limit);
  }
  CHECK(wc.status == IBV_WC_SUCCESS);
}

/* ---- order */

static uint8_t mark_of(uint64_t round) { return (uint8_t)(round % 251 + 1); }

static void* poll_until_over(void* end) {
  struct end* e = end;
  struct ibv_wc wc;
  while (!shared->over) CHECK(ibv_poll_cq(e->cq, 1, &wc) == 0);
  return NULL;
}

static void watch(uint64_t rounds, size_t size) {
  struct end e = open_end(0, size);
  pthread_t poller;
  CHECK(pthread_create(&poller, NULL, poll_until_over, &e) == 0);
  const volatile uint8_t* const memory = e.memory;
  const size_t stride = size <= 4096 ? 1 : 61;
  for (uint64_t round = 1; round <= rounds; ++round) {
    const uint8_t mark = mark_of(round);
    for (unsigned spins = 0; memory[size - 1] != mark; ++spins) {
      if (spins % (1u << 20) == 0) CHECK(time(NULL) < limit);
    }
    atomic_thread_fence(memory_order_acquire);
    /* Downwards, and at once: what is late comes soon. */
    for (size_t at = size; at > stride; at -= stride) {
      const size_t i = at - stride;
      if (memory[i] == mark) continue;
      fprintf(stderr, "round %llu: byte %zu of %zu came after the last one\n",
              (unsigned long long)round, i, size);
      exit(1);
    }
    shared->answered = round;
  }
  shared->over = true;
  pthread_join(poller, NULL);
  printf("%llu messages of %zu bytes, the last byte always last\n", (unsigned long long)rounds,
         size);
}

static void write_marks(uint64_t rounds, size_t size) {
  struct end e = open_end(1, size);
  for (uint64_t round = 1; round <= rounds; ++round) {
    memset(e.memory, mark_of(round), size);
    do_one(&e, IBV_WR_RDMA_WRITE, (uint32_t)size);
    while (shared->answered < round) CHECK(time(NULL) < limit);
  }
}

/* ---- compute, quiet */

static void be_read(uint64_t rounds, bool polls_first) {
  struct end e = open_end(0, 4096);
  struct ibv_wc wc;
  volatile uint64_t work = 0;
  for (uint64_t round = 1; round <= rounds; ++round) {
    const double begin = microseconds();
    while (polls_first && microseconds() < begin + kPolling) {
      CHECK(ibv_poll_cq(e.cq, 1, &wc) == 0);
    }
    shared->asked = round;
    while (shared->answered < round) { /* and no call of the device's */
      if (++work % (1u << 20) == 0) CHECK(time(NULL) < limit);
    }
  }
}

static int by_size(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void read_it(uint64_t rounds) {
  struct end e = open_end(1, 4096);
  double* took = calloc(rounds, sizeof *took);
  CHECK(took != NULL);
  for (uint64_t round = 1; round <= rounds; ++round) {
    while (shared->asked < round) CHECK(time(NULL) < limit);
    const double begin = microseconds();
    do_one(&e, IBV_WR_RDMA_READ, 64);
    took[round - 1] = microseconds() - begin;
    shared->answered = round;
  }
  qsort(took, rounds, sizeof *took, by_size);
  printf("%llu READs served, the median took %.1f us\n", (unsigned long long)rounds,
         took[rounds / 2]);
}

int main(int argc, char** argv) {
  if (argc < 3) return fprintf(stderr, "progress order|compute|quiet ROUNDS [SIZE]\n"), 2;
  const bool order = strcmp(argv[1], "order") == 0;
  const bool quiet = strcmp(argv[1], "quiet") == 0;
  const uint64_t rounds = strtoull(argv[2], NULL, 10);
  const size_t size = argc > 3 ? strtoull(argv[3], NULL, 10) : 64;
  CHECK(rounds > 0 && size > 0);
  limit = time(NULL) + kPatience;
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  const pid_t sender = fork();
  CHECK(sender >= 0);
  if (sender == 0) {
    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    order ? write_marks(rounds, size) : read_it(rounds);
    return 0;
  }
  order ? watch(rounds, size) : be_read(rounds, quiet);
  int status = 0;
  CHECK(waitpid(sender, &status, 0) == sender);
  return status == 0 ? 0 : 1;
}
