/* Many connections of rdma_cm, each opened, used and closed, by one pair of processes.
 *
 *   connections serve ADDRESS PORT ROUNDS COUNT
 *   connections connect ADDRESS PORT ROUNDS COUNT
 *   connections vanish ADDRESS PORT
 *
 * connect opens COUNT connections at once, sends over each, checks the echo, closes all of them;
 * ROUNDS times over. serve ends after as many. After each round both print
 *
 *   round N: C connections in S s, rate R/s, rss K KiB, fds F
 *
 * vanish kills itself as soon as its request is on the way. serve calls such a connection broken,
 * and goes on until as many as it should are closed.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "must.h"

enum { kBytes = 64, kTimeoutMs = 2000 };

/* 4.096 us * 2^16 = 268 ms. A connection stays in time-wait as long: by the default, seconds, and
 * what is in time-wait would grow through the first rounds. */
enum { kAckTimeout = 16 };

struct connection {
  struct rdma_cm_id* id;
  struct ibv_mr* mr;
  unsigned number;
  char out[kBytes], in[kBytes];
};

static struct rdma_event_channel* events;
static struct ibv_context* context; /* of the first connection; what follows is shared by all */
static struct ibv_pd* pd;
static struct ibv_comp_channel* completions;
static struct ibv_cq* cq;
static int serving;
static long closed, broken;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static long resident_kib(void) {
  long pages = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  MUST(file != NULL && fscanf(file, "%ld %ld", &pages, &resident) == 2);
  fclose(file);
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static int descriptors(void) {
  int count = 0;
  DIR* folder = opendir("/proc/self/fd");
  MUST(folder != NULL);
  while (readdir(folder) != NULL) ++count;
  closedir(folder);
  return count - 3; /* ., .. and the folder itself */
}

static void post_receive(struct connection* c) {
  struct ibv_sge sge = {(uintptr_t)c->in, kBytes, c->mr->lkey};
  struct ibv_recv_wr wr = {.wr_id = (uintptr_t)c, .sg_list = &sge, .num_sge = 1}, *bad;
  MUST(ibv_post_recv(c->id->qp, &wr, &bad) == 0);
}

static void post_send(struct connection* c) {
  struct ibv_sge sge = {(uintptr_t)c->out, kBytes, c->mr->lkey};
  struct ibv_send_wr wr = {.wr_id = (uintptr_t)c,
                           .sg_list = &sge,
                           .num_sge = 1,
                           .opcode = IBV_WR_SEND,
                           .send_flags = IBV_SEND_SIGNALED},
                     *bad;
  MUST(ibv_post_send(c->id->qp, &wr, &bad) == 0);
}

static void prepare_device(struct ibv_context* device, int count) {
  if (context != NULL) return;
  context = device;
  MUST((pd = ibv_alloc_pd(context)) != NULL);
  MUST((completions = ibv_create_comp_channel(context)) != NULL);
  MUST((cq = ibv_create_cq(context, 4 * count, NULL, completions, 0)) != NULL);
  MUST(ibv_req_notify_cq(cq, 0) == 0);
}

static void prepare_queue_pair(struct connection* c, int count) {
  prepare_device(c->id->verbs, count);
  struct ibv_qp_init_attr init = {
      .send_cq = cq,
      .recv_cq = cq,
      .qp_type = IBV_QPT_RC,
      .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
  MUST(rdma_create_qp(c->id, pd, &init) == 0);
  MUST((c->mr = ibv_reg_mr(pd, c->out, 2 * kBytes, IBV_ACCESS_LOCAL_WRITE)) != NULL);
  post_receive(c);
}

static struct connection* new_connection(struct rdma_cm_id* id) {
  struct connection* c = calloc(1, sizeof *c);
  MUST(c != NULL);
  c->id = id;
  id->context = c;
  return c;
}

static void destroy(struct connection* c) {
  rdma_destroy_qp(c->id);
  MUST(ibv_dereg_mr(c->mr) == 0);
  MUST(rdma_destroy_id(c->id) == 0);
  free(c);
}

static void handle_event(enum rdma_cm_event_type type, struct rdma_cm_id* id, int count) {
  struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};
  struct connection* c = id->context;
  switch (type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      MUST(rdma_resolve_route(id, kTimeoutMs) == 0);
      return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      prepare_queue_pair(c, count);
      MUST(rdma_connect(id, &param) == 0);
      return;
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      c = new_connection(id);
      prepare_queue_pair(c, count);
      MUST(rdma_accept(id, &param) == 0);
      return;
    case RDMA_CM_EVENT_ESTABLISHED:
      if (serving) return;
      memset(c->out, (int)(c->number & 0xff), kBytes);
      memcpy(c->out, &c->number, sizeof c->number);
      post_send(c);
      return;
    case RDMA_CM_EVENT_DISCONNECTED:
      if (serving) rdma_disconnect(id);
      destroy(c);
      ++closed;
      return;
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return;
    default:
      printf("%s\n", rdma_event_str(type));
      MUST(serving); /* whose client may vanish */
      ++broken;
      destroy(c);
  }
}

static void take_event(int count) {
  struct rdma_cm_event* event;
  MUST(rdma_get_cm_event(events, &event) == 0);
  const enum rdma_cm_event_type type = event->event;
  struct rdma_cm_id* id = event->id;
  rdma_ack_cm_event(event);
  handle_event(type, id, count);
}

static void received(struct connection* c) {
  if (serving) {
    memcpy(c->out, c->in, kBytes);
    post_send(c);
    return;
  }
  MUST(memcmp(c->out, c->in, kBytes) == 0);
  MUST(rdma_disconnect(c->id) == 0);
}

static void take_completions(void) {
  struct ibv_cq* from;
  void* cq_context;
  MUST(ibv_get_cq_event(completions, &from, &cq_context) == 0);
  ibv_ack_cq_events(cq, 1);
  MUST(ibv_req_notify_cq(cq, 0) == 0);
  struct ibv_wc wc;
  int n;
  while ((n = ibv_poll_cq(cq, 1, &wc)) == 1) {
    if (wc.status == IBV_WC_WR_FLUSH_ERR) continue; /* its connection is over */
    MUST(wc.status == IBV_WC_SUCCESS);
    if (wc.opcode == IBV_WC_RECV) received((struct connection*)(uintptr_t)wc.wr_id);
  }
  MUST(n == 0);
}

static void run_until_closed(long total, int count) {
  while (closed < total) {
    struct pollfd fds[2] = {{.fd = events->fd, .events = POLLIN},
                            {.fd = completions ? completions->fd : -1, .events = POLLIN}};
    MUST(poll(fds, 2, -1) > 0);
    /* Data may overtake the event of its connection; completions of a connection never come
     * after the event of its end. */
    if (fds[1].revents)
      take_completions();
    else if (fds[0].revents)
      take_event(count);
  }
}

static void open_connection(struct sockaddr* to, unsigned number) {
  struct rdma_cm_id* id;
  MUST(rdma_create_id(events, &id, NULL, RDMA_PS_TCP) == 0);
  new_connection(id)->number = number;
  uint8_t ack_timeout = kAckTimeout;
  MUST(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &ack_timeout,
                       sizeof ack_timeout) == 0);
  MUST(rdma_resolve_addr(id, NULL, to, kTimeoutMs) == 0);
}

static void vanish(struct sockaddr* to) {
  open_connection(to, 0);
  take_event(1); /* ADDR_RESOLVED */
  take_event(1); /* ROUTE_RESOLVED: asks for the connection */
  raise(SIGKILL);
}

int main(int argc, char** argv) {
  if (argc != 6 && !(argc == 4 && strcmp(argv[1], "vanish") == 0)) {
    fprintf(stderr, "usage: connections serve|connect|vanish ADDRESS PORT [ROUNDS COUNT]\n");
    return 2;
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[3]))};
  MUST(inet_pton(AF_INET, argv[2], &at.sin_addr) == 1);
  MUST((events = rdma_create_event_channel()) != NULL);
  if (argc == 4) vanish((struct sockaddr*)&at);

  const int rounds = atoi(argv[4]), count = atoi(argv[5]);
  serving = strcmp(argv[1], "serve") == 0;
  if (serving) {
    struct rdma_cm_id* listener;
    MUST(rdma_create_id(events, &listener, NULL, RDMA_PS_TCP) == 0);
    MUST(rdma_bind_addr(listener, (struct sockaddr*)&at) == 0);
    MUST(rdma_listen(listener, count) == 0);
    printf("listening\n");
  }
  for (int round = 1; round <= rounds; ++round) {
    const double start = now();
    for (int i = 0; i < count && !serving; ++i) open_connection((struct sockaddr*)&at, (unsigned)i);
    run_until_closed((long)round * count, count);
    const double seconds = now() - start;
    printf("round %d: %d connections in %.2f s, rate %.0f/s, rss %ld KiB, fds %d\n", round, count,
           seconds, count / seconds, resident_kib(), descriptors());
  }
  printf("end: %ld closed, %ld broken\n", closed, broken);
  return 0;
}
