/* Completion channels: an event arrives, destroying a queue waits for its acknowledgement, a
 * non-blocking channel says EAGAIN, and a thread that waits can be cancelled. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "abi.h"

#ifdef __SANITIZE_ADDRESS__
enum { kAddressSanitizer = 1 };
#else
enum { kAddressSanitizer = 0 };
#endif

static void send_one(struct pair* p) {
  post_receive(p, 1, 2, 0, 64);
  struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
  struct ibv_send_wr* bad = NULL;
  CHECK(ibv_post_send(p->qp[0], &wr, &bad) == 0);
}

static void drain_two(struct pair* p) {
  for (int i = 0; i < 2; ++i) CHECK(next_completion(p->cq).status == IBV_WC_SUCCESS);
}

static void test_event(struct pair* p) {
  CHECK(ibv_req_notify_cq(p->cq, 0) == 0);
  send_one(p);
  struct ibv_cq* cq = NULL;
  void* context = NULL;
  CHECK(ibv_get_cq_event(p->channel, &cq, &context) == 0);
  CHECK(cq == p->cq && context == p->cq->cq_context);
  ibv_ack_cq_events(cq, 1);
  drain_two(p);
}

static void test_non_blocking(struct pair* p) {
  const int flags = fcntl(p->channel->fd, F_GETFL);
  CHECK(fcntl(p->channel->fd, F_SETFL, flags | O_NONBLOCK) == 0);
  struct ibv_cq* cq;
  void* context;
  CHECK(ibv_get_cq_event(p->channel, &cq, &context) == -1 && errno == EAGAIN);

  CHECK(ibv_req_notify_cq(p->cq, 0) == 0);
  send_one(p);
  struct pollfd ready = {.fd = p->channel->fd, .events = POLLIN};
  CHECK(poll(&ready, 1, 5000) == 1);
  CHECK(ibv_get_cq_event(p->channel, &cq, &context) == 0);
  ibv_ack_cq_events(cq, 1);
  drain_two(p);
  CHECK(fcntl(p->channel->fd, F_SETFL, flags) == 0);
}

static void* wait_forever(void* channel) {
  struct ibv_cq* cq;
  void* context;
  ibv_get_cq_event(channel, &cq, &context);
  return NULL;
}

static void test_cancel(struct pair* p) {
  pthread_t thread;
  void* result = NULL;
  CHECK(pthread_create(&thread, NULL, wait_forever, p->channel) == 0);
  usleep(50000);
  CHECK(pthread_cancel(thread) == 0);
  CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
}

static volatile int destroyed;
static void* destroy_queue(void* cq) {
  CHECK(ibv_destroy_cq(cq) == 0);
  destroyed = 1;
  return NULL;
}

static void test_destroy_waits_for_acknowledgement(struct pair* p) {
  CHECK(ibv_req_notify_cq(p->cq, 0) == 0);
  send_one(p);
  struct ibv_cq* cq;
  void* context;
  CHECK(ibv_get_cq_event(p->channel, &cq, &context) == 0);
  drain_two(p);
  for (int i = 0; i < 2; ++i) CHECK(ibv_destroy_qp(p->qp[i]) == 0);

  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, destroy_queue, cq) == 0);
  usleep(50000);
  CHECK(!destroyed);
  ibv_ack_cq_events(cq, 1);
  CHECK(pthread_join(thread, NULL) == 0 && destroyed);
}

int main(void) {
  struct pair p = connect_pair();
  test_event(&p);
  test_non_blocking(&p);
  if (kAddressSanitizer) {
    puts("skipped: cancellation (AddressSanitizer does not follow its unwinding)");
  } else {
    test_cancel(&p);
  }
  test_destroy_waits_for_acknowledgement(&p);
  CHECK(ibv_close_device(p.context) == 0); /* the rest goes with it */
  free(p.memory);
  return 0;
}
