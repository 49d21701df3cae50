/* Memory that is registered, in use, and taken away: the requests that need it end with an error,
 * whichever end they need it at, and the program lives.
 *
 *   memory_goes ROUNDS
 *
 * In each round a fresh pair of queue pairs has WRITEs and READs under way when another thread
 * takes the memory of one end, by munmap() or mprotect(). */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../abi/abi.h"

enum { kLength = 1 << 16, kInFlight = 4 };

/* Which end's memory goes, how, and under what. */
struct theft {
  const char* what;
  int end; /* 0: of the one that posts */
  bool unmap;
  int left; /* protection, where it isn't unmapped */
  enum ibv_wr_opcode opcode;
  enum ibv_wc_status expected;
};

static const struct theft kThefts[] = {
    {"source of WRITEs unmapped", 0, true, 0, IBV_WR_RDMA_WRITE, IBV_WC_LOC_PROT_ERR},
    {"source of WRITEs unreadable", 0, false, PROT_NONE, IBV_WR_RDMA_WRITE, IBV_WC_LOC_PROT_ERR},
    {"target of WRITEs unmapped", 1, true, 0, IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR},
    {"target of WRITEs read-only", 1, false, PROT_READ, IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR},
    {"target of READs read-only", 0, false, PROT_READ, IBV_WR_RDMA_READ, IBV_WC_LOC_PROT_ERR},
    {"target of READs unmapped", 0, true, 0, IBV_WR_RDMA_READ, IBV_WC_LOC_PROT_ERR},
    {"source of READs unmapped", 1, true, 0, IBV_WR_RDMA_READ, IBV_WC_REM_ACCESS_ERR},
    {"source of READs unreadable", 1, false, PROT_NONE, IBV_WR_RDMA_READ, IBV_WC_REM_ACCESS_ERR},
};
enum { kTheftCount = sizeof kThefts / sizeof *kThefts };

static _Atomic int completed; /* of this round: the thief waits for some */

struct stolen {
  void* memory;
  const struct theft* theft;
};

static void* steal(void* argument) {
  const struct stolen* s = argument;
  while (completed < 2 * kInFlight) usleep(20);
  if (s->theft->unmap) {
    CHECK(munmap(s->memory, kLength) == 0);
  } else {
    CHECK(mprotect(s->memory, kLength, s->theft->left) == 0);
  }
  return NULL;
}

static void post(struct ibv_qp* qp, const struct ibv_mr* local, const struct ibv_mr* remote,
                 enum ibv_wr_opcode opcode) {
  struct ibv_sge sge = {(uintptr_t)local->addr, kLength, local->lkey};
  struct ibv_send_wr wr = {.sg_list = &sge,
                           .num_sge = 1,
                           .opcode = opcode,
                           .send_flags = IBV_SEND_SIGNALED,
                           .wr.rdma = {(uintptr_t)remote->addr, remote->rkey}};
  struct ibv_send_wr* bad = NULL;
  CHECK(ibv_post_send(qp, &wr, &bad) == 0);
}

static void round_of(const struct theft* theft) {
  struct pair p = connect_pair();
  void* memory[2];
  struct ibv_mr* mr[2];
  for (int i = 0; i < 2; ++i) {
    memory[i] = mmap(NULL, kLength, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory[i] != MAP_FAILED);
    mr[i] = ibv_reg_mr(p.pd, memory[i], kLength,
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    CHECK(mr[i] != NULL);
  }
  completed = 0;
  struct stolen stolen = {memory[theft->end], theft};
  pthread_t thief;
  CHECK(pthread_create(&thief, NULL, steal, &stolen) == 0);
  for (int i = 0; i < kInFlight; ++i) post(p.qp[0], mr[0], mr[1], theft->opcode);
  struct ibv_wc wc;
  while ((wc = next_completion(p.cq)).status == IBV_WC_SUCCESS) {
    ++completed;
    post(p.qp[0], mr[0], mr[1], theft->opcode);
  }
  if (wc.status != theft->expected) {
    fprintf(stderr, "%s: %s instead of %s\n", theft->what, ibv_wc_status_str(wc.status),
            ibv_wc_status_str(theft->expected));
    exit(1);
  }
  for (int i = 1; i < kInFlight; ++i) {
    CHECK(next_completion(p.cq).status == IBV_WC_WR_FLUSH_ERR);
  }
  CHECK(pthread_join(thief, NULL) == 0);
  for (int i = 0; i < 2; ++i) {
    CHECK(ibv_dereg_mr(mr[i]) == 0);
    if (!(theft->unmap && i == theft->end)) CHECK(munmap(memory[i], kLength) == 0);
  }
  destroy_pair(&p);
}

int main(int argc, char** argv) {
  if (argc != 2) return fprintf(stderr, "memory_goes ROUNDS\n"), 2;
  const int rounds = atoi(argv[1]);
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < kTheftCount; ++i) round_of(&kThefts[i]);
  }
  printf("%d thefts under traffic, each seen\n", rounds * kTheftCount);
  return 0;
}
