/* How often a process sleeps for each message that it waits for in ibv_get_cq_event.
 *
 *   wakeups MESSAGES
 *
 * Two processes send each other one message in turn. Each counts how often all its threads together
 * gave up their core, and prints
 *
 *   N messages, S sleeps each at one end, T at the other
 */
#include <sys/resource.h>

#include "two_ends.h"

enum { kWarmUp = 200, kBytes = 64 };

static _Atomic long* sleeps; /* of each end, shared */

static void receive_into(struct ibv_qp* qp, struct ibv_mr* mr) {
  struct ibv_sge sge = {(uintptr_t)mr->addr, kBytes, mr->lkey};
  struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
  CHECK(ibv_post_recv(qp, &wr, &bad) == 0);
}

/* Events are for what arrives, not for what was sent. */
static void send_from(struct ibv_qp* qp, struct ibv_mr* mr) {
  struct ibv_sge sge = {(uintptr_t)mr->addr + kBytes, kBytes, mr->lkey};
  struct ibv_send_wr wr = {.sg_list = &sge,
                           .num_sge = 1,
                           .opcode = IBV_WR_SEND,
                           .send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED},
                     *bad;
  CHECK(ibv_post_send(qp, &wr, &bad) == 0);
}

static bool take(struct ibv_cq* cq) {
  bool received = false;
  struct ibv_wc wc;
  int n;
  while ((n = ibv_poll_cq(cq, 1, &wc)) == 1) {
    CHECK(wc.status == IBV_WC_SUCCESS);
    received = received || wc.opcode == IBV_WC_RECV;
  }
  CHECK(n == 0);
  return received;
}

static void wait_for_message(struct ibv_comp_channel* channel, struct ibv_cq* cq) {
  do {
    struct ibv_cq* from;
    void* context;
    CHECK(ibv_get_cq_event(channel, &from, &context) == 0);
    ibv_ack_cq_events(cq, 1);
    CHECK(ibv_req_notify_cq(cq, 1) == 0);
  } while (!take(cq));
}

static long sleeps_so_far(void) {
  struct rusage usage;
  CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
  return usage.ru_nvcsw;
}

static void run(int which, int messages) {
  struct ibv_context* context = open_loopback();
  struct ibv_pd* pd = ibv_alloc_pd(context);
  struct ibv_comp_channel* channel = ibv_create_comp_channel(context);
  struct ibv_cq* cq = ibv_create_cq(context, 16, NULL, channel, 0);
  CHECK(pd != NULL && channel != NULL && cq != NULL && ibv_req_notify_cq(cq, 1) == 0);
  static uint8_t memory[2 * kBytes];
  struct ibv_mr* mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
  struct ibv_qp* qp = create_rc_qp(pd, cq);
  CHECK(mr != NULL);
  to_init(qp);
  receive_into(qp, mr);
  shared->qpn[which] = qp->qp_num;
  while (shared->qpn[1 - which] == 0) pause_or_give_up();
  to_rts(qp, shared->qpn[1 - which]);
  ++shared->ready;
  while (shared->ready != 2) pause_or_give_up();

  long before = 0;
  if (which == 0) send_from(qp, mr);
  for (int i = 0; i < messages + kWarmUp; ++i) {
    if (i == kWarmUp) before = sleeps_so_far();
    wait_for_message(channel, cq);
    receive_into(qp, mr);
    if (which == 1 || i + 1 < messages + kWarmUp) send_from(qp, mr);
  }
  sleeps[which] = sleeps_so_far() - before;
  ++shared->answered;
  while (shared->answered != 2) pause_or_give_up(); /* the last one is acknowledged */
}

int main(int argc, char** argv) {
  const int messages = argc == 2 ? atoi(argv[1]) : 0;
  if (messages <= 0) return fprintf(stderr, "usage: wakeups MESSAGES\n"), 2;
  sleeps = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(sleeps != MAP_FAILED);
  const pid_t other = fork_ends();
  run(other == 0, messages);
  if (other == 0) return 0;
  const int status = join_ends(other);
  printf("%d messages, %.2f sleeps each at one end, %.2f at the other\n", messages,
         (double)sleeps[0] / messages, (double)sleeps[1] / messages);
  return status;
}
