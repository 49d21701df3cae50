/* What may still happen to memory when ibv_dereg_mr has returned: nothing.
 *
 *   after_dereg ROUNDS OPERATION END
 *
 * OPERATION is write, send or read, END is requester or responder. In each round messages are under
 * way when a thread of this end deregisters its memory. Then the program uses the memory anew:
 *
 *   a destination   keeps what the program writes, or what there was: no foreign byte arrives
 *   a source        is scribbled over, and no scribbled byte arrives at the peer; a request that
 *                   ends well has brought all that there was before
 *
 * Exit status 0: it held. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../abi/abi.h"

enum {
  kPatience = 500 /* seconds, for all of it */,
  kMessages = 16,
  kLength = 32771,
  kOffset = 3, /* so that copies straddle pages */
  kSpace = 1 << 20,
  kScribble = 0xee,
};
enum end_name { kRequester = 0, kResponder = 1 };

struct shared {
  _Atomic uint64_t arrived; /* at barriers */
  _Atomic uint32_t qpn[2], rkey;
  _Atomic uint64_t address;
  _Atomic bool watching; /* the owner's thread waits for the first bytes */
  _Atomic bool over;     /* the requester has all completions of this round */
  enum ibv_wc_status status[kMessages];
};

static struct shared* shared;
static uint8_t *source, *destination; /* of kSpace bytes, of both processes */
static enum ibv_wr_opcode opcode;
static enum end_name owner; /* the end that deregisters */
static bool owns_source;
static time_t limit;

struct end {
  enum end_name who;
  struct ibv_context* context;
  struct ibv_pd* pd;
  struct ibv_cq* cq;
  struct ibv_qp* qp;
  struct ibv_mr* mr;
  uint8_t* memory;
  uint64_t barriers;
};

/* Until the other process has come to the same place. */
static void meet(struct end* e) {
  const uint64_t wanted = 2 * ++e->barriers;
  ++shared->arrived;
  while (shared->arrived < wanted) {
    CHECK(time(NULL) < limit);
    sched_yield();
  }
}

static uint8_t* message(uint8_t* memory, int i) { return memory + kOffset + (size_t)i * kLength; }

/* Neither 0 nor kScribble. */
static uint8_t mark_of(uint64_t round, int i) {
  return (uint8_t)(1 + (round * 7 + (uint64_t)i) % 199);
}

static void register_memory(struct end* e) {
  const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  e->mr = ibv_reg_mr(e->pd, e->memory, kSpace, access);
  CHECK(e->mr != NULL);
  if (e->who == kResponder) shared->rkey = e->mr->rkey;
}

static struct end open_end(enum end_name who) {
  struct end e = {.who = who, .context = open_loopback()};
  e.pd = ibv_alloc_pd(e.context);
  e.cq = ibv_create_cq(e.context, 2 * kMessages, NULL, NULL, 0);
  CHECK(e.pd != NULL && e.cq != NULL);
  struct ibv_qp_init_attr init = {
      .send_cq = e.cq,
      .recv_cq = e.cq,
      .cap = {kMessages, kMessages, 1, 1, 0},
      .qp_type = IBV_QPT_RC,
  };
  e.qp = ibv_create_qp(e.pd, &init);
  CHECK(e.qp != NULL);
  const bool has_source = (who == kResponder) == (opcode == IBV_WR_RDMA_READ);
  e.memory = has_source ? source : destination;
  shared->qpn[who] = e.qp->qp_num;
  if (who == kResponder) shared->address = (uintptr_t)e.memory;
  register_memory(&e);
  return e;
}

static void connect_anew(struct end* e, uint64_t round) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
  CHECK(ibv_modify_qp(e->qp, &attr, IBV_QP_STATE) == 0);
  struct ibv_wc wc;
  while (ibv_poll_cq(e->cq, 1, &wc) > 0) continue; /* of the last round */
  to_init(e->qp);
  /* Packets of the last round are strangers to this one. */
  const uint32_t psn = (uint32_t)(round * 0x51234) & 0xffffff;
  attr = rtr_attr(e->context, shared->qpn[1 - e->who]);
  attr.path_mtu = IBV_MTU_4096;
  attr.rq_psn = psn;
  CHECK(ibv_modify_qp(e->qp, &attr, RTR_MASK) == 0);
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                              .sq_psn = psn,
                              .timeout = 14,
                              .retry_cnt = 7,
                              .rnr_retry = 7,
                              .max_rd_atomic = 4};
  CHECK(ibv_modify_qp(e->qp, &attr,
                      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                          IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static void post_all(struct end* e) {
  for (int i = 0; i < kMessages; ++i) {
    const uint64_t offset = (uint64_t)(message(e->memory, i) - e->memory);
    struct ibv_sge sge = {(uintptr_t)e->memory + offset, kLength, e->mr->lkey};
    if (e->who == kRequester) {
      struct ibv_send_wr* bad = NULL;
      struct ibv_send_wr wr = {.wr_id = (uint64_t)i,
                               .sg_list = &sge,
                               .num_sge = 1,
                               .opcode = opcode,
                               .send_flags = IBV_SEND_SIGNALED,
                               .wr.rdma = {shared->address + offset, shared->rkey}};
      CHECK(ibv_post_send(e->qp, &wr, &bad) == 0);
    } else if (opcode == IBV_WR_SEND) {
      struct ibv_recv_wr* bad = NULL;
      struct ibv_recv_wr wr = {.wr_id = (uint64_t)i, .sg_list = &sge, .num_sge = 1};
      CHECK(ibv_post_recv(e->qp, &wr, &bad) == 0);
    }
  }
}

/* ---------------------------------------------------------------- the owner's thread */

struct task {
  struct end* end;
  uint64_t round;
  uint8_t* snapshot; /* of the destination when it was deregistered; or NULL */
};

static void* deregister_midway(void* argument) {
  struct task* t = argument;
  /* A source is read long before its last bytes arrive. */
  const size_t first = owns_source ? 1 : (size_t)kMessages * kLength;
  const volatile uint8_t* const byte = destination + kOffset + (size_t)random() % first;
  shared->watching = true;
  for (unsigned looks = 1; *byte == 0 && !shared->over; ++looks) {
    if (looks % 64 == 0) sched_yield();
  }
  CHECK(ibv_dereg_mr(t->end->mr) == 0);
  if (owns_source) {
    memset(source, kScribble, kSpace);
  } else if (t->round % 2 == 0) {
    memset(destination, kScribble, kSpace);
  } else {
    memcpy(t->snapshot, destination, kSpace);
  }
  return NULL;
}

/* ---------------------------------------------------------------- both ends */

static void collect(struct end* e) {
  for (int i = 0; i < kMessages;) {
    struct ibv_wc wc;
    const int n = ibv_poll_cq(e->cq, 1, &wc);
    CHECK(n >= 0);
    if (n == 0) CHECK(time(NULL) < limit);
    if (n == 0) continue;
    CHECK(wc.wr_id == (uint64_t)i); /* in order */
    shared->status[i++] = wc.status;
  }
  shared->over = true;
}

static void serve(struct end* e) {
  struct ibv_wc wc;
  while (!shared->over) {
    const int n = ibv_poll_cq(e->cq, 1, &wc);
    CHECK(n >= 0 && time(NULL) < limit);
    if (n == 0) sched_yield();
  }
}

static void prepare_source(uint64_t round) {
  for (int i = 0; i < kMessages; ++i) memset(message(source, i), mark_of(round, i), kLength);
}

static void run_round(struct end* e, uint64_t round, uint8_t* snapshot) {
  const bool mine = e->who == owner;
  if (mine) {
    if (round > 0) register_memory(e);
    prepare_source(round);
    memset(destination, 0, kSpace);
    shared->over = shared->watching = false;
  }
  connect_anew(e, round);
  if (e->who == kResponder) post_all(e);
  meet(e);
  struct task task = {e, round, snapshot};
  pthread_t thread;
  if (mine) CHECK(pthread_create(&thread, NULL, deregister_midway, &task) == 0);
  if (e->who == kRequester) {
    while (!shared->watching) sched_yield();
    post_all(e);
    collect(e);
  } else {
    serve(e);
  }
  if (mine) CHECK(pthread_join(thread, NULL) == 0);
  meet(e);
}

/* ---------------------------------------------------------------- what must hold */

static void complain(uint64_t round, const char* what, size_t at, uint8_t seen) {
  fprintf(stderr, "round %llu: %s: 0x%02x at %zu\n", (unsigned long long)round, what, seen, at);
  exit(1);
}

/* The NAK of a READ's responder comes behind a flood of responses. A socket may lose it, and the
 * responder, which is in the error state, doesn't repeat it. */
static bool nak_may_be_lost(void) {
  const char* const wire = getenv("VERBENA_WIRE");
  return opcode == IBV_WR_RDMA_READ && owner == kResponder && wire != NULL &&
         strcmp(wire, "udp") == 0;
}

static bool is_right(enum ibv_wc_status status, bool failed) {
  if (failed) return status == IBV_WC_WR_FLUSH_ERR;
  if (status == IBV_WC_SUCCESS) return true;
  if (owner == kRequester) return status == IBV_WC_LOC_PROT_ERR;
  if (status == IBV_WC_RETRY_EXC_ERR) return nak_may_be_lost();
  return status == (opcode == IBV_WR_SEND ? IBV_WC_REM_OP_ERR : IBV_WC_REM_ACCESS_ERR);
}

/* One error, of the right kind, then nothing but flushes. False: all went well. */
static bool check_statuses(uint64_t round) {
  bool failed = false;
  for (int i = 0; i < kMessages; ++i) {
    const enum ibv_wc_status status = shared->status[i];
    if (!is_right(status, failed)) {
      fprintf(stderr, "round %llu, message %d: \"%s\"\n", (unsigned long long)round, i,
              ibv_wc_status_str(status));
      exit(1);
    }
    failed = failed || status != IBV_WC_SUCCESS;
  }
  return failed;
}

static void check_destination(uint64_t round, const uint8_t* snapshot) {
  for (size_t i = 0; i < kSpace; ++i) {
    const uint8_t wanted = round % 2 == 0 ? kScribble : snapshot[i];
    if (destination[i] != wanted) complain(round, "a byte after dereg", i, destination[i]);
  }
}

/* `bytes` is what there was of the destination when nothing could arrive any more. */
static void check_messages(uint64_t round, const uint8_t* bytes) {
  for (int i = 0; i < kMessages; ++i) {
    const uint8_t* const m = bytes + (message(destination, i) - destination);
    const uint8_t mark = mark_of(round, i);
    size_t extent = 0;
    while (extent < kLength && m[extent] == mark) ++extent;
    if (shared->status[i] == IBV_WC_SUCCESS && extent != kLength) {
      complain(round, "a message that ended well", extent, m[extent]);
    }
    for (size_t at = extent; at < kLength; ++at) {
      if (m[at] != 0) complain(round, "a byte that nobody sent", at, m[at]);
    }
  }
}

static void check(uint64_t round, const uint8_t* snapshot) {
  if (owns_source) {
    check_messages(round, destination);
  } else {
    check_destination(round, snapshot);
    if (round % 2 == 1) check_messages(round, snapshot);
  }
}

static int run(enum end_name who, uint64_t rounds) {
  struct end e = open_end(who);
  uint8_t* snapshot = malloc(kSpace);
  CHECK(snapshot != NULL);
  uint64_t midway = 0;
  meet(&e);
  for (uint64_t round = 0; round < rounds; ++round) {
    run_round(&e, round, snapshot);
    if (who != owner) continue;
    midway += check_statuses(round);
    check(round, snapshot);
  }
  if (who != owner) return 0;
  printf("%llu rounds, %llu of them in the middle\n", (unsigned long long)rounds,
         (unsigned long long)midway);
  CHECK(midway >= rounds / 500); /* or the machine is too busy to say anything */
  return 0;
}

static void* share(size_t size) {
  void* p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(p != MAP_FAILED);
  return p;
}

int main(int argc, char** argv) {
  if (argc != 4) return fprintf(stderr, "after_dereg ROUNDS OPERATION END\n"), 2;
  const uint64_t rounds = strtoull(argv[1], NULL, 10);
  opcode = argv[2][0] == 'w'   ? IBV_WR_RDMA_WRITE
           : argv[2][0] == 's' ? IBV_WR_SEND
                               : IBV_WR_RDMA_READ;
  owner = strcmp(argv[3], "requester") == 0 ? kRequester : kResponder;
  owns_source = (owner == kResponder) == (opcode == IBV_WR_RDMA_READ);
  limit = time(NULL) + kPatience;
  shared = share(sizeof *shared);
  source = share(kSpace);
  destination = share(kSpace);
  const pid_t peer = fork();
  CHECK(peer >= 0);
  if (peer == 0) {
    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    return run(1 - owner, rounds);
  }
  const int status = run(owner, rounds);
  int other = 0;
  CHECK(waitpid(peer, &other, 0) == peer);
  return status == 0 && other == 0 ? 0 : 1;
}
