/* Many connections between two processes, each of which counts those that end.
 *
 *   deaths serve ADDRESS PORT COUNT
 *   deaths connect ADDRESS PORT COUNT
 *
 * Prints "listening" or not, "connected" when COUNT connections are; then "disconnected COUNT,
 * received N" when each has had its DISCONNECTED, where N is how many messages of the peer had been
 * received by then; and ends well when all have had their TIMEWAIT_EXIT. Signals:
 *
 *   SIGUSR1   sends a message on each connection, and kills itself at once
 *   SIGUSR2   becomes another program, `sleep`
 *   SIGHUP    prints "still COUNT" when that many are connected
 *   SIGQUIT   forks a child that ends at once, and one that stays; prints "forked PID" of that one
 */
#include <arpa/inet.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "must.h"

static char memory[64];
static struct ibv_mr* region;

static int connected, disconnected, received, over;
static int count;
static struct rdma_cm_id** ids;

static void say(const char* format, int a, int b) {
  printf(format, a, b);
  fflush(stdout);
}

static void make_pair(struct rdma_cm_id* id) {
  struct ibv_qp_init_attr init = {
      .qp_type = IBV_QPT_RC,
      .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
  MUST(rdma_create_qp(id, NULL, &init) == 0);
  if (region == NULL) region = ibv_reg_mr(id->pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
  MUST(region != NULL);
  struct ibv_sge piece = {(uintptr_t)memory, sizeof memory, region->lkey};
  struct ibv_recv_wr receive = {.sg_list = &piece, .num_sge = 1}, *bad;
  MUST(ibv_post_recv(id->qp, &receive, &bad) == 0);
}

static void end(struct rdma_cm_id* id) {
  struct ibv_wc wc;
  while (ibv_poll_cq(id->recv_cq, 1, &wc) == 1) received += wc.status == IBV_WC_SUCCESS;
  if (++disconnected == count) say("disconnected %d, received %d\n", disconnected, received);
  MUST(rdma_disconnect(id) == 0);
}

static void handle(struct rdma_cm_event* event) {
  struct rdma_conn_param param = {.retry_count = 7};
  struct rdma_cm_id* const id = event->id;
  switch (event->event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      MUST(rdma_resolve_route(id, 2000) == 0);
      return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      make_pair(id);
      MUST(rdma_connect(id, &param) == 0);
      return;
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      make_pair(id);
      MUST(rdma_accept(id, &param) == 0);
      return;
    case RDMA_CM_EVENT_ESTABLISHED:
      ids[connected] = id;
      if (++connected == count) say("connected %d\n", connected, 0);
      return;
    case RDMA_CM_EVENT_DISCONNECTED:
      return end(id);
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      ++over;
      return;
    default:
      printf("%s, error %d\n", rdma_event_str(event->event), event->status);
      exit(1);
  }
}

static void send_and_die(void) {
  struct ibv_sge piece = {(uintptr_t)memory, sizeof memory, region->lkey};
  struct ibv_send_wr send = {.sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
  for (int i = 0; i < connected; ++i) MUST(ibv_post_send(ids[i]->qp, &send, &bad) == 0);
  raise(SIGKILL);
}

static void make_children(void) {
  const pid_t brief = fork();
  if (brief == 0) exit(0);
  int status;
  MUST(brief > 0 && waitpid(brief, &status, 0) == brief && status == 0);
  const pid_t stays = fork();
  if (stays == 0) {
    for (;;) pause();
  }
  MUST(stays > 0);
  say("forked %d\n", stays, 0);
}

static void obey(int signals) {
  struct signalfd_siginfo info;
  MUST(read(signals, &info, sizeof info) == sizeof info);
  if (info.ssi_signo == SIGUSR1) send_and_die();
  if (info.ssi_signo == SIGHUP) say("still %d\n", connected - disconnected, 0);
  if (info.ssi_signo == SIGQUIT) make_children();
  if (info.ssi_signo == SIGUSR2) {
    execlp("sleep", "sleep", "100", NULL);
    MUST(!"exec");
  }
}

int main(int argc, char** argv) {
  MUST(argc == 5);
  const int serves = strcmp(argv[1], "serve") == 0;
  count = atoi(argv[4]);
  MUST((ids = calloc((size_t)count, sizeof *ids)) != NULL);
  sigset_t told;
  sigemptyset(&told);
  sigaddset(&told, SIGUSR1);
  sigaddset(&told, SIGUSR2);
  sigaddset(&told, SIGHUP);
  sigaddset(&told, SIGQUIT);
  MUST(sigprocmask(SIG_BLOCK, &told, NULL) == 0);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[3]))};
  MUST(inet_pton(AF_INET, argv[2], &at.sin_addr) == 1);
  struct rdma_event_channel* channel = rdma_create_event_channel();
  MUST(channel != NULL);
  for (int i = 0; i < (serves ? 1 : count); ++i) {
    struct rdma_cm_id* id;
    MUST(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    if (serves) {
      MUST(rdma_bind_addr(id, (struct sockaddr*)&at) == 0 && rdma_listen(id, count) == 0);
      say("listening\n", 0, 0);
    } else {
      MUST(rdma_resolve_addr(id, NULL, (struct sockaddr*)&at, 2000) == 0);
    }
  }
  struct pollfd ready[] = {{channel->fd, POLLIN, 0}, {signalfd(-1, &told, SFD_CLOEXEC), POLLIN, 0}};
  while (over < count) {
    MUST(poll(ready, 2, -1) > 0);
    if (ready[1].revents) obey(ready[1].fd);
    if (!ready[0].revents) continue;
    struct rdma_cm_event* event;
    MUST(rdma_get_cm_event(channel, &event) == 0);
    handle(event);
    MUST(rdma_ack_cm_event(event) == 0);
  }
  return 0;
}
