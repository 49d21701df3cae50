/* Many processes, each connected to each other one by a reliable connection of its own.
 *
 *   mesh PROCESSES MESSAGES [TIMEOUT]
 *
 * Each process writes MESSAGES times 64 KiB into each other one's memory, and checks what has come.
 * TIMEOUT is that of the queue pairs; 14 is 67 ms, with seven retries. Prints how much shared
 * memory the machine has more than before, for each process:
 *
 *   P processes, C connections, M MiB of shared memory for each process
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../abi/abi.h"

enum { kMost = 64, kBytes = 65536, kPatience = 240 /* seconds */ };

struct process {
  _Atomic uint32_t qpn[kMost]; /* towards each */
  _Atomic uint64_t address;    /* kBytes for each */
  _Atomic uint32_t rkey;
};
static struct board {
  struct process of[kMost];
  _Atomic int connected, written, checked;
  _Atomic int leave;
} * board;

static int processes, messages, timeout = 14;
static time_t limit;

static void wait_until(_Atomic int* count, int least) {
  while (*count < least) {
    CHECK(time(NULL) < limit);
    usleep(1000);
  }
}

static long shared_kib(void) {
  char line[256];
  long kib = -1;
  FILE* file = fopen("/proc/meminfo", "r");
  CHECK(file != NULL);
  while (fgets(line, sizeof line, file) != NULL) sscanf(line, "Shmem: %ld kB", &kib);
  fclose(file);
  CHECK(kib >= 0);
  return kib;
}

static uint8_t pattern(int from, int to) { return (uint8_t)(1 + from * 3 + to * 7); }

static void write_to(struct ibv_qp* qp, const struct ibv_mr* mr, int me, int to) {
  struct ibv_sge sge = {(uintptr_t)mr->addr + (size_t)to * kBytes, kBytes, mr->lkey};
  struct ibv_send_wr wr = {.wr_id = (uint64_t)to,
                           .sg_list = &sge,
                           .num_sge = 1,
                           .opcode = IBV_WR_RDMA_WRITE,
                           .send_flags = IBV_SEND_SIGNALED,
                           .wr.rdma = {board->of[to].address + (uint64_t)me * kBytes,
                                       board->of[to].rkey}},
                     *bad;
  CHECK(ibv_post_send(qp, &wr, &bad) == 0);
}

static void be(int me) {
  struct ibv_context* context = open_loopback();
  struct ibv_pd* pd = ibv_alloc_pd(context);
  struct ibv_cq* cq = ibv_create_cq(context, 8 * processes, NULL, NULL, 0);
  const size_t size = (size_t)processes * kBytes;
  uint8_t* const source = malloc(size);
  uint8_t* const target = calloc(1, size);
  CHECK(pd != NULL && cq != NULL && source != NULL && target != NULL);
  struct ibv_mr* from = ibv_reg_mr(pd, source, size, 0);
  struct ibv_mr* into =
      ibv_reg_mr(pd, target, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  CHECK(from != NULL && into != NULL);
  struct ibv_qp* qp[kMost];
  board->of[me].address = (uintptr_t)target;
  board->of[me].rkey = into->rkey;
  for (int i = 0; i < processes; ++i) {
    memset(source + (size_t)i * kBytes, pattern(me, i), kBytes);
    qp[i] = create_rc_qp(pd, cq);
    to_init(qp[i]);
    board->of[me].qpn[i] = qp[i]->qp_num;
  }
  ++board->connected;
  wait_until(&board->connected, processes);
  for (int i = 0; i < processes; ++i) {
    if (i == me) continue;
    struct ibv_qp_attr rtr = rtr_attr(context, board->of[i].qpn[me]);
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
                              .sq_psn = 0x123456,
                              .timeout = (uint8_t)timeout,
                              .retry_cnt = 7,
                              .rnr_retry = 7,
                              .max_rd_atomic = 4};
    CHECK(ibv_modify_qp(qp[i], &rtr, RTR_MASK) == 0);
    CHECK(ibv_modify_qp(qp[i], &rts,
                        IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                            IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
  }
  ++board->connected;
  wait_until(&board->connected, 2 * processes);

  int posted[kMost] = {0}, left = (processes - 1) * messages;
  for (int i = 0; i < processes; ++i) {
    for (; i != me && posted[i] < messages && posted[i] < 8; ++posted[i]) {
      write_to(qp[i], from, me, i);
    }
  }
  while (left > 0) {
    struct ibv_wc wc[16];
    const int n = ibv_poll_cq(cq, 16, wc);
    CHECK(n >= 0 && time(NULL) < limit);
    for (int k = 0; k < n; ++k, --left) {
      const int i = (int)wc[k].wr_id;
      CHECK(wc[k].status == IBV_WC_SUCCESS);
      if (posted[i] < messages) ++posted[i], write_to(qp[i], from, me, i);
    }
  }
  ++board->written;
  wait_until(&board->written, processes);
  for (int i = 0; i < processes; ++i) {
    for (size_t k = 0; i != me && k < kBytes; ++k) {
      CHECK(target[(size_t)i * kBytes + k] == pattern(i, me));
    }
  }
  ++board->checked;
  wait_until(&board->leave, 1);
}

int main(int argc, char** argv) {
  processes = argc >= 3 ? atoi(argv[1]) : 0;
  messages = argc >= 3 ? atoi(argv[2]) : 0;
  if (argc == 4) timeout = atoi(argv[3]);
  if (processes < 2 || processes > kMost || messages < 1) {
    return fprintf(stderr, "usage: mesh PROCESSES MESSAGES [TIMEOUT] (2 to %d processes)\n", kMost),
           2;
  }
  limit = time(NULL) + kPatience;
  board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(board != MAP_FAILED);
  const long before = shared_kib();
  for (int i = 0; i < processes; ++i) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child > 0) continue;
    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    be(i);
    _exit(0);
  }
  while (board->checked < processes) {
    int status = 0;
    CHECK(time(NULL) < limit);
    CHECK(waitpid(-1, &status, WNOHANG) == 0); /* none has ended */
    usleep(1000);
  }
  const long more = shared_kib() - before;
  board->leave = 1;
  for (int i = 0, status; i < processes; ++i) CHECK(wait(&status) > 0 && status == 0);
  printf("%d processes, %d connections, %.1f MiB of shared memory for each process\n", processes,
         processes * (processes - 1), (double)more / 1024 / processes);
  return 0;
}
