/* A client that says good-bye when it is told to, by SIGUSR1.
 *
 *   goodbye serve ADDRESS PORT      accepts, and does nothing more
 *   goodbye connect ADDRESS PORT    prints "connected"; at the signal disconnects, and prints the
 *                                   event that ends it and how long that took
 */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "cm_roles.h"

static struct rdma_cm_event* expect(struct rdma_event_channel* channel,
                                    enum rdma_cm_event_type wanted) {
  struct rdma_cm_event* event;
  MUST(rdma_get_cm_event(channel, &event) == 0);
  if (event->event != wanted) {
    printf("%s, error %d\n", rdma_event_str(event->event), event->status);
    exit(1);
  }
  return event;
}

static void serve(struct rdma_event_channel* channel, struct rdma_cm_id* id, struct sockaddr* at) {
  MUST(rdma_bind_addr(id, at) == 0 && rdma_listen(id, 1) == 0);
  struct rdma_cm_event* event = expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
  make_pair(event->id);
  struct rdma_conn_param param = {.retry_count = 7};
  MUST(rdma_accept(event->id, &param) == 0);
  MUST(rdma_ack_cm_event(event) == 0);
  for (;;) pause();
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void visit(struct rdma_event_channel* channel, struct rdma_cm_id* id, struct sockaddr* at) {
  sigset_t told;
  sigemptyset(&told);
  sigaddset(&told, SIGUSR1);
  MUST(sigprocmask(SIG_BLOCK, &told, NULL) == 0);
  prepare(channel, id, at);
  struct rdma_conn_param param = {.retry_count = 7};
  MUST(rdma_connect(id, &param) == 0);
  MUST(rdma_ack_cm_event(expect(channel, RDMA_CM_EVENT_ESTABLISHED)) == 0);
  printf("connected\n");
  fflush(stdout);
  int number;
  MUST(sigwait(&told, &number) == 0);
  const double begin = now();
  MUST(rdma_disconnect(id) == 0);
  struct rdma_cm_event* event = expect(channel, RDMA_CM_EVENT_DISCONNECTED);
  printf("%s, status %d, after %.3f s\n", rdma_event_str(event->event), event->status,
         now() - begin);
  MUST(rdma_ack_cm_event(event) == 0);
  rdma_destroy_qp(id);
}

int main(int argc, char** argv) { return run_role(argc, argv, serve, visit); }
