/* A requester and a responder, each a process of its own, and a director, which starts both and
 * uses no verbs. The memory of both ends lies in memfds that all three map, so the director sees
 * how far a message has come.
 *
 *   source:       | guard | pattern            | guard |
 *   destination:  | guard | pattern | zeros    | guard |
 *                                   ^ extent
 *
 * The region begins at an odd address, so copies straddle pages. No byte of the pattern is 0. */
#pragma once

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../abi/abi.h"

enum { kPatience = 60 /* seconds, of one round */, kPage = 4096, kGuard = kPage + 61 };
enum end_name { kRequester = 0, kResponder = 1 };

/* What the processes of a round tell each other without the network. */
struct board {
  _Atomic uint32_t qpn[2];
  _Atomic uint64_t address; /* of the responder's region */
  _Atomic uint32_t rkey;
  _Atomic int ready;         /* ends that can send and receive */
  _Atomic bool acted;        /* the victim has done what it was to do */
  _Atomic bool declined;     /* the transfer was over before it could */
  _Atomic double acted_at;   /* seconds, before it began */
  _Atomic uint64_t extent;   /* of the destination when it had */
  _Atomic bool done[2];      /* the end has seen its completion, or expects none */
  _Atomic int status[2];     /* of the completion; -1: none came */
  _Atomic double done_at[2]; /* seconds */
  _Atomic bool leave;        /* the ends clean up */
};

static struct board* board;
static time_t limit; /* of this round */

static inline double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static inline void pause_or_give_up(void) {
  CHECK(time(NULL) < limit);
  usleep(50);
}

/* ---------------------------------------------------------------- memory */

struct memory {
  int file;
  size_t size;     /* of the region */
  uint8_t* map;    /* of the director: guard, region, guard */
  uint8_t* region; /* in this map, at an odd address */
};

static inline size_t map_size(size_t size) {
  return (kGuard + size + kGuard + kPage - 1) / kPage * kPage;
}

static inline void* map_memory(const struct memory* m, int flags) {
  void* map = mmap(NULL, map_size(m->size), PROT_READ | PROT_WRITE, flags, m->file, 0);
  CHECK(map != MAP_FAILED);
  return map;
}

static inline struct memory make_memory(const char* name, size_t size) {
  struct memory m = {.file = memfd_create(name, 0), .size = size};
  CHECK(m.file >= 0 && ftruncate(m.file, (off_t)map_size(size)) == 0);
  m.map = map_memory(&m, MAP_SHARED);
  m.region = m.map + kGuard;
  return m;
}

static inline size_t file_size(const struct memory* m) {
  struct stat s;
  CHECK(fstat(m->file, &s) == 0);
  return (size_t)s.st_size;
}

/* Bytes of the region, where the file may have been cut. */
static inline size_t bytes_left(const struct memory* m) {
  const size_t all = file_size(m);
  return all < kGuard ? 0 : all - kGuard < m->size ? all - kGuard : m->size;
}

/* Zeros, and no pages. */
static inline void clear_memory(const struct memory* m) {
  CHECK(ftruncate(m->file, 0) == 0 && ftruncate(m->file, (off_t)map_size(m->size)) == 0);
}

static inline uint64_t pattern_word(uint64_t index) {
  uint64_t x = (index + 1) * 0x9e3779b97f4a7c15u;
  x ^= x >> 29;
  return x | 0x0101010101010101u;
}

static inline void fill_with_pattern(uint8_t* bytes, size_t size) {
  for (size_t at = 0; at < size; at += 8) {
    const uint64_t word = pattern_word(at / 8);
    memcpy(bytes + at, &word, size - at < 8 ? size - at : 8);
  }
}

/* Bytes that are as the pattern, from the first one on. */
static inline size_t pattern_prefix(const uint8_t* bytes, size_t size) {
  for (size_t at = 0; at < size; at += 8) {
    const uint64_t word = pattern_word(at / 8);
    const size_t length = size - at < 8 ? size - at : 8;
    if (memcmp(bytes + at, &word, length) == 0) continue;
    size_t same = 0;
    while (bytes[at + same] == ((const uint8_t*)&word)[same]) ++same;
    return at + same;
  }
  return size;
}

/* The first byte that is not 0; `size`: all are. */
static inline size_t first_nonzero(const uint8_t* bytes, size_t size) {
  size_t at = 0;
  while (at < size && bytes[at] != 0) return at;
  while (at < size) {
    const size_t length = size - at < kPage ? size - at : kPage;
    static const uint8_t kZeros[kPage];
    if (memcmp(bytes + at, kZeros, length) != 0) break;
    at += length;
  }
  while (at < size && bytes[at] == 0) ++at;
  return at;
}

/* How much of the pattern is there. Nothing else is there: not behind it, and not in the guards. */
static inline size_t checked_extent(const struct memory* m) {
  const size_t left = bytes_left(m);
  const size_t extent = pattern_prefix(m->region, left);
  const size_t stray = extent + first_nonzero(m->region + extent, left - extent);
  if (stray != left) {
    fprintf(stderr, "byte %zu of %zu is 0x%02x, though only %zu bytes are in order\n", stray,
            m->size, m->region[stray], extent);
    exit(1);
  }
  CHECK(first_nonzero(m->map, kGuard) == kGuard);
  if (file_size(m) == map_size(m->size)) {
    CHECK(first_nonzero(m->region + m->size, kGuard) == kGuard);
  }
  return extent;
}

/* The same by bisection, as bytes arrive in ascending order: fast. */
static inline size_t quick_extent(const volatile uint8_t* region, size_t size) {
  size_t there = 0, missing = size;
  while (there < missing) {
    const size_t middle = there + (missing - there) / 2;
    if (region[middle] != 0) {
      there = middle + 1;
    } else {
      missing = middle;
    }
  }
  return there;
}

/* Until the byte `at` of the destination has arrived. False: the transfer ended without it. */
static inline bool wait_for_byte(const struct memory* destination, size_t at) {
  const volatile uint8_t* const byte = destination->region + at;
  for (unsigned looks = 1; *byte == 0; ++looks) {
    if (board->done[kRequester]) return false;
    if (looks % 256 == 0) sched_yield();
    if (looks % 65536 == 0) CHECK(time(NULL) < limit);
  }
  return true;
}

/* ---------------------------------------------------------------- an end */

enum operation { kWrite, kSend, kRead };

static inline enum ibv_wr_opcode opcode_of(enum operation o) {
  return o == kWrite ? IBV_WR_RDMA_WRITE : o == kSend ? IBV_WR_SEND : IBV_WR_RDMA_READ;
}

static inline bool has_source(enum end_name who, enum operation o) {
  return (who == kResponder) == (o == kRead);
}

/* Of a queue pair: how often it repeats, and how long it waits for each answer. */
struct patience {
  uint8_t timeout, retries;
};

struct end {
  enum end_name who;
  struct ibv_context* context;
  struct ibv_pd* pd;
  struct ibv_cq* cq;
  struct ibv_qp* qp;
  struct ibv_mr* mr;
  uint8_t* map;
  size_t map_size;
  struct ibv_sge region;
};

static inline void connect_end(struct end* e, struct patience patience) {
  struct ibv_qp_attr attr = rtr_attr(e->context, board->qpn[1 - e->who]);
  attr.path_mtu = IBV_MTU_4096;
  CHECK(ibv_modify_qp(e->qp, &attr, RTR_MASK) == 0);
  struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
                            .sq_psn = 0x123456,
                            .timeout = patience.timeout,
                            .retry_cnt = patience.retries,
                            .rnr_retry = 7,
                            .max_rd_atomic = 4};
  CHECK(ibv_modify_qp(e->qp, &rts,
                      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                          IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

/* The end's memory is private where it is a source, so that the end may scribble over it. */
static inline void register_memory(struct end* e, const struct memory* m, enum operation o) {
  const bool source = has_source(e->who, o);
  e->map = map_memory(m, source ? MAP_PRIVATE : MAP_SHARED);
  e->map_size = map_size(m->size);
  const int read = e->who == kResponder ? IBV_ACCESS_REMOTE_READ : 0;
  const int write = IBV_ACCESS_LOCAL_WRITE | (e->who == kResponder ? IBV_ACCESS_REMOTE_WRITE : 0);
  e->mr = ibv_reg_mr(e->pd, e->map + kGuard, m->size, source ? read : write);
  CHECK(e->mr != NULL);
  e->region = (struct ibv_sge){(uintptr_t)e->map + kGuard, (uint32_t)m->size, e->mr->lkey};
  if (e->who == kResponder) {
    board->address = e->region.addr;
    board->rkey = e->mr->rkey;
  }
}

static inline void post_request(struct end* e, enum operation o) {
  struct ibv_send_wr* bad = NULL;
  struct ibv_send_wr wr = {.sg_list = &e->region,
                           .num_sge = 1,
                           .opcode = opcode_of(o),
                           .send_flags = IBV_SEND_SIGNALED,
                           .wr.rdma = {board->address, board->rkey}};
  CHECK(ibv_post_send(e->qp, &wr, &bad) == 0);
}

static inline void post_the_receive(struct end* e) {
  struct ibv_recv_wr* bad = NULL;
  struct ibv_recv_wr wr = {.sg_list = &e->region, .num_sge = 1};
  CHECK(ibv_post_recv(e->qp, &wr, &bad) == 0);
}

/* In a process that has not opened a device. Connected, and with a receive for a SEND. */
static inline struct end open_end(enum end_name who, enum operation o, const struct memory* m,
                                  struct patience patience) {
  struct end e = {.who = who, .context = open_loopback()};
  e.pd = ibv_alloc_pd(e.context);
  CHECK(e.pd != NULL);
  e.cq = ibv_create_cq(e.context, 4, NULL, NULL, 0);
  CHECK(e.cq != NULL);
  register_memory(&e, m, o);
  e.qp = create_rc_qp(e.pd, e.cq);
  to_init(e.qp);
  board->qpn[who] = e.qp->qp_num;
  while (board->qpn[1 - who] == 0) pause_or_give_up();
  if (who == kResponder && o == kSend) post_the_receive(&e);
  connect_end(&e, patience);
  ++board->ready;
  while (board->ready != 2) pause_or_give_up();
  return e;
}

static inline void close_end(struct end* e) {
  CHECK(ibv_destroy_qp(e->qp) == 0);
  CHECK(e->mr == NULL || ibv_dereg_mr(e->mr) == 0);
  CHECK(ibv_destroy_cq(e->cq) == 0);
  CHECK(ibv_dealloc_pd(e->pd) == 0);
  CHECK(ibv_close_device(e->context) == 0);
}
