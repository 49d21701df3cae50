/* What a program costs that sleeps: it waits SECONDS in ibv_get_cq_event() for a message that a
 * child of its own sends when they are over.
 *
 *   asleep SECONDS
 *
 * Prints the CPU time of all its threads, the device's included, in milliseconds. */
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../abi/abi.h"

static double cpu_milliseconds(void) {
  struct rusage used;
  CHECK(getrusage(RUSAGE_SELF, &used) == 0);
  return 1e3 * (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e-3 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

/* The receiver's queue pair, and the sender's; each is told the other's number. */
struct told {
  uint32_t qpn;
};

static struct ibv_qp* open_end(struct ibv_cq** cq, struct ibv_comp_channel** channel,
                               struct ibv_pd** pd) {
  struct ibv_context* context = open_loopback();
  CHECK((*pd = ibv_alloc_pd(context)) != NULL);
  CHECK((*channel = ibv_create_comp_channel(context)) != NULL);
  CHECK((*cq = ibv_create_cq(context, 8, NULL, *channel, 0)) != NULL);
  struct ibv_qp* qp = create_rc_qp(*pd, *cq);
  to_init(qp);
  return qp;
}

static void swap_numbers(int out, int in, struct ibv_qp* qp) {
  const struct told mine = {qp->qp_num};
  struct told theirs;
  CHECK(write(out, &mine, sizeof mine) == sizeof mine);
  CHECK(read(in, &theirs, sizeof theirs) == sizeof theirs);
  to_rts(qp, theirs.qpn);
}

static void send_late(int out, int in, unsigned seconds) {
  struct ibv_cq* cq;
  struct ibv_comp_channel* channel;
  struct ibv_pd* pd;
  struct ibv_qp* qp = open_end(&cq, &channel, &pd);
  swap_numbers(out, in, qp);
  char ready;
  CHECK(read(in, &ready, 1) == 1);
  sleep(seconds);
  struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
  CHECK(send_and_wait(cq, qp, wr) == IBV_WC_SUCCESS);
}

int main(int argc, char** argv) {
  if (argc != 2) return fprintf(stderr, "asleep SECONDS\n"), 2;
  int to_child[2], to_parent[2];
  CHECK(pipe(to_child) == 0 && pipe(to_parent) == 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    send_late(to_parent[1], to_child[0], (unsigned)atoi(argv[1]));
    return 0;
  }
  struct ibv_cq *cq, *from;
  struct ibv_comp_channel* channel;
  struct ibv_pd* pd;
  struct ibv_qp* qp = open_end(&cq, &channel, &pd);
  swap_numbers(to_child[1], to_parent[0], qp);
  struct ibv_recv_wr wr = {.wr_id = 7}, *bad;
  CHECK(ibv_post_recv(qp, &wr, &bad) == 0);
  CHECK(ibv_req_notify_cq(cq, 0) == 0);
  CHECK(write(to_child[1], "r", 1) == 1);
  const double before = cpu_milliseconds();
  void* context;
  CHECK(ibv_get_cq_event(channel, &from, &context) == 0 && from == cq);
  const double after = cpu_milliseconds();
  ibv_ack_cq_events(cq, 1);
  CHECK(next_completion(cq).wr_id == 7);
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  printf("%.2f ms of CPU\n", after - before);
  return 0;
}
