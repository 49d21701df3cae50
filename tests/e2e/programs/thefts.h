/* Traffic between two queue pairs of this process, while a thread takes the memory of one end away:
 * the requests that need it end with the right error, at whichever end they need it. */
#pragma once

#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../abi/abi.h"

enum { kTheftLength = 1 << 16, kTheftsInFlight = 4 };

enum taking { kUnmap, kNoAccess, kReadOnly, kCut /* the file behind it */ };

/* Which end's memory goes, how, and under what. */
struct theft {
  const char* what;
  int end; /* 0: of the one that posts */
  enum taking taking;
  enum ibv_wr_opcode opcode;
  enum ibv_wc_status expected;
};

static const struct theft kThefts[] = {
    {"source of WRITEs unmapped", 0, kUnmap, IBV_WR_RDMA_WRITE, IBV_WC_LOC_PROT_ERR},
    {"source of WRITEs unreadable", 0, kNoAccess, IBV_WR_RDMA_WRITE, IBV_WC_LOC_PROT_ERR},
    {"source of WRITEs cut", 0, kCut, IBV_WR_RDMA_WRITE, IBV_WC_LOC_PROT_ERR},
    {"target of WRITEs unmapped", 1, kUnmap, IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR},
    {"target of WRITEs read-only", 1, kReadOnly, IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR},
    {"target of WRITEs cut", 1, kCut, IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR},
    {"target of READs read-only", 0, kReadOnly, IBV_WR_RDMA_READ, IBV_WC_LOC_PROT_ERR},
    {"target of READs unmapped", 0, kUnmap, IBV_WR_RDMA_READ, IBV_WC_LOC_PROT_ERR},
    {"source of READs unmapped", 1, kUnmap, IBV_WR_RDMA_READ, IBV_WC_REM_ACCESS_ERR},
    {"source of READs unreadable", 1, kNoAccess, IBV_WR_RDMA_READ, IBV_WC_REM_ACCESS_ERR},
};
enum { kTheftCount = sizeof kThefts / sizeof *kThefts };

struct thefts {
  struct ibv_context* context;
  struct ibv_pd* pd;
  struct ibv_cq* cq;
  char* memory[2];
  int file[2];
  struct ibv_mr* mr[2];
  bool may_unmap;
  pthread_t thief;
  _Atomic(const struct theft*) next; /* NULL: the memory is gone */
  _Atomic int completed;             /* of this theft: the thief waits for some */
  _Atomic bool over;
};

/* Where nobody else's mapping comes to lie while ours is gone. ThreadSanitizer allows no such
 * place; memory of its programs is made unreadable instead. */
static inline void* lonely_place(int end) {
  return (void*)(0x200000000000 + (uintptr_t)end * (1 << 20));
}

static inline void bring_memory(struct thefts* t, int end, bool of_file) {
  const int how = of_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  if (of_file) CHECK(ftruncate(t->file[end], kTheftLength) == 0);
  CHECK(mmap(t->memory[end], kTheftLength, PROT_READ | PROT_WRITE, how | MAP_FIXED,
             of_file ? t->file[end] : -1, 0) == t->memory[end]);
}

static inline void take_memory(struct thefts* t, const struct theft* theft) {
  char* const memory = t->memory[theft->end];
  if (theft->taking == kCut) {
    CHECK(ftruncate(t->file[theft->end], 0) == 0);
  } else if (theft->taking == kUnmap && t->may_unmap) {
    CHECK(munmap(memory, kTheftLength) == 0);
  } else {
    CHECK(mprotect(memory, kTheftLength, theft->taking == kReadOnly ? PROT_READ : PROT_NONE) == 0);
  }
}

static inline void* thief(void* argument) {
  struct thefts* t = argument;
  while (!t->over) {
    const struct theft* theft = t->next;
    if (theft == NULL || t->completed < 2 * kTheftsInFlight) {
      usleep(20);
      continue;
    }
    take_memory(t, theft);
    t->next = NULL;
  }
  return NULL;
}

/* Before the threads that it starts are needed: they inherit the signal mask. */
static inline struct thefts* open_thefts(void) {
  struct thefts* t = calloc(1, sizeof *t);
  CHECK(t != NULL);
  t->context = open_loopback();
  CHECK((t->pd = ibv_alloc_pd(t->context)) != NULL);
  CHECK((t->cq = ibv_create_cq(t->context, 64, NULL, NULL, 0)) != NULL);
  t->may_unmap = true;
  for (int i = 0; i < 2; ++i) {
    t->file[i] = memfd_create("theft", MFD_CLOEXEC);
    CHECK(t->file[i] >= 0);
#ifdef __SANITIZE_THREAD__
    void* const wanted = NULL;
#else
    void* const wanted = lonely_place(i);
#endif
    t->memory[i] =
        mmap(wanted, kTheftLength, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(t->memory[i] != MAP_FAILED);
    if (t->memory[i] != lonely_place(i)) t->may_unmap = false;
    t->mr[i] =
        ibv_reg_mr(t->pd, t->memory[i], kTheftLength,
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    CHECK(t->mr[i] != NULL);
  }
  CHECK(pthread_create(&t->thief, NULL, thief, t) == 0);
  return t;
}

static inline void close_thefts(struct thefts* t) {
  t->over = true;
  CHECK(pthread_join(t->thief, NULL) == 0);
  for (int i = 0; i < 2; ++i) {
    CHECK(ibv_dereg_mr(t->mr[i]) == 0);
    munmap(t->memory[i], kTheftLength);
    close(t->file[i]);
  }
  CHECK(ibv_destroy_cq(t->cq) == 0);
  CHECK(ibv_dealloc_pd(t->pd) == 0);
  CHECK(ibv_close_device(t->context) == 0);
  free(t);
}

static inline void post_theft(struct thefts* t, struct ibv_qp* qp, enum ibv_wr_opcode opcode) {
  struct ibv_sge sge = {(uintptr_t)t->memory[0], kTheftLength, t->mr[0]->lkey};
  struct ibv_send_wr wr = {.sg_list = &sge,
                           .num_sge = 1,
                           .opcode = opcode,
                           .send_flags = IBV_SEND_SIGNALED,
                           .wr.rdma = {(uintptr_t)t->memory[1], t->mr[1]->rkey}};
  struct ibv_send_wr* bad = NULL;
  CHECK(ibv_post_send(qp, &wr, &bad) == 0);
}

static inline void steal_once(struct thefts* t, const struct theft* theft) {
  for (int i = 0; i < 2; ++i) bring_memory(t, i, theft->taking == kCut);
  struct ibv_qp* qp[2];
  for (int i = 0; i < 2; ++i) to_init(qp[i] = create_rc_qp(t->pd, t->cq));
  for (int i = 0; i < 2; ++i) to_rts(qp[i], qp[1 - i]->qp_num);
  t->completed = 0;
  t->next = theft;
  for (int i = 0; i < kTheftsInFlight; ++i) post_theft(t, qp[0], theft->opcode);
  struct ibv_wc wc;
  while ((wc = next_completion(t->cq)).status == IBV_WC_SUCCESS) {
    ++t->completed;
    post_theft(t, qp[0], theft->opcode);
  }
  if (wc.status != theft->expected) {
    fprintf(stderr, "%s: %s instead of %s\n", theft->what, ibv_wc_status_str(wc.status),
            ibv_wc_status_str(theft->expected));
    exit(1);
  }
  for (int i = 1; i < kTheftsInFlight; ++i) {
    CHECK(next_completion(t->cq).status == IBV_WC_WR_FLUSH_ERR);
  }
  while (t->next != NULL) usleep(20); /* half a theft */
  for (int i = 0; i < 2; ++i) CHECK(ibv_destroy_qp(qp[i]) == 0);
}

/* `rounds` times each of them. */
static inline void steal(struct thefts* t, int rounds) {
  for (int i = 0; i < rounds * kTheftCount; ++i) steal_once(t, &kThefts[i % kTheftCount]);
}
