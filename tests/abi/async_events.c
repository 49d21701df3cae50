/* Asynchronous events: what raises which, to whom it goes, and that an object with events that
 * the program took waits for their acknowledgement before it goes. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "abi.h"

static struct ibv_async_event next_event(struct ibv_context* context) {
  struct pollfd ready = {.fd = context->async_fd, .events = POLLIN};
  CHECK(poll(&ready, 1, 5000) == 1);
  struct ibv_async_event event;
  CHECK(ibv_get_async_event(context, &event) == 0);
  return event;
}

static void expect_no_event(struct ibv_context* context) {
  struct ibv_async_event event;
  CHECK(ibv_get_async_event(context, &event) == -1 && errno == EAGAIN);
}

static void expect_qp_event(struct ibv_context* context, struct ibv_qp* qp,
                            enum ibv_event_type type) {
  struct ibv_async_event event = next_event(context);
  CHECK(event.event_type == type && event.element.qp == qp);
  ibv_ack_async_event(&event);
}

/* A queue pair that the peer has reached before it was ready to send. */
static void test_communication_established(struct pair* p) {
  struct ibv_qp* late = create_rc_qp(p->pd, p->cq);
  struct ibv_qp* early = create_rc_qp(p->pd, p->cq);
  to_init(late);
  to_init(early);
  struct ibv_qp_attr attr = rtr_attr(p->context, early->qp_num);
  CHECK(ibv_modify_qp(late, &attr, RTR_MASK) == 0);
  to_rts(early, late->qp_num);
  struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_RDMA_WRITE};
  CHECK(send_and_wait(p->cq, early, wr) == IBV_WC_SUCCESS);
  expect_qp_event(p->context, late, IBV_EVENT_COMM_EST);
  CHECK(ibv_destroy_qp(late) == 0 && ibv_destroy_qp(early) == 0);
}

static void test_drained(struct pair* p) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
  CHECK(ibv_modify_qp(p->qp[0], &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0);
  expect_qp_event(p->context, p->qp[0], IBV_EVENT_SQ_DRAINED);
  struct ibv_qp_init_attr init;
  CHECK(ibv_query_qp(p->qp[0], &attr, IBV_QP_STATE, &init) == 0);
  CHECK(attr.qp_state == IBV_QPS_SQD && !attr.sq_draining);
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS};
  CHECK(ibv_modify_qp(p->qp[0], &attr, IBV_QP_STATE) == 0);
}

/* The peer asks for memory that it may not touch. */
static void test_access_error(struct pair* p) {
  struct ibv_sge sge = sge_of(p, 0, 8);
  struct ibv_send_wr wr = {.wr_id = 2,
                           .sg_list = &sge,
                           .num_sge = 1,
                           .opcode = IBV_WR_RDMA_WRITE,
                           .wr.rdma = {.remote_addr = 1, .rkey = p->mr->rkey}};
  CHECK(send_and_wait(p->cq, p->qp[0], wr) == IBV_WC_REM_ACCESS_ERR);
  expect_qp_event(p->context, p->qp[1], IBV_EVENT_QP_ACCESS_ERR);
}

static volatile int destroyed;
static void* destroy(void* qp) {
  CHECK(ibv_destroy_qp(qp) == 0);
  destroyed = 1;
  return NULL;
}

/* One event waits, one was taken: the first is forgotten, the second awaited. */
static void test_destroy_waits_for_acknowledgement(struct pair* p) {
  struct ibv_sge sge = sge_of(p, 0, 8);
  struct ibv_send_wr wr = {.wr_id = 3,
                           .sg_list = &sge,
                           .num_sge = 1,
                           .opcode = IBV_WR_RDMA_READ,
                           .wr.rdma = {.remote_addr = 1, .rkey = p->mr->rkey}};
  CHECK(send_and_wait(p->cq, p->qp[0], wr) == IBV_WC_REM_ACCESS_ERR);
  struct ibv_async_event event = next_event(p->context);
  CHECK(event.event_type == IBV_EVENT_QP_ACCESS_ERR && event.element.qp == p->qp[1]);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, destroy, p->qp[1]) == 0);
  usleep(50000);
  CHECK(!destroyed);
  ibv_ack_async_event(&event);
  CHECK(pthread_join(thread, NULL) == 0 && destroyed);
}

static struct ibv_qp* create_qp_on(struct ibv_pd* pd, struct ibv_cq* cq, struct ibv_srq* srq) {
  struct ibv_qp_init_attr init = {
      .send_cq = cq,
      .recv_cq = cq,
      .srq = srq,
      .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
      .qp_type = IBV_QPT_RC,
  };
  struct ibv_qp* qp = ibv_create_qp(pd, &init);
  CHECK(qp != NULL && qp->srq == srq);
  to_init(qp);
  return qp;
}

/* A shared queue falls below its limit; its queue pair has used its last receive. */
static void test_shared_receive_queue(struct pair* p) {
  struct ibv_srq_init_attr init = {.srq_context = p, .attr = {.max_wr = 8, .max_sge = 1}};
  struct ibv_srq* srq = ibv_create_srq(p->pd, &init);
  CHECK(srq != NULL && srq->srq_context == p);
  struct ibv_qp* to = create_qp_on(p->pd, p->cq, srq);
  struct ibv_qp* from = create_qp_on(p->pd, p->cq, NULL);
  to_rts(to, from->qp_num);
  to_rts(from, to->qp_num);
  for (int i = 0; i < 2; ++i) {
    struct ibv_recv_wr wr = {.wr_id = 10};
    struct ibv_recv_wr* bad = NULL;
    CHECK(ibv_post_srq_recv(srq, &wr, &bad) == 0);
  }
  struct ibv_srq_attr attr = {.srq_limit = 2};
  CHECK(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT) == 0);
  CHECK(ibv_query_srq(srq, &attr) == 0 && attr.srq_limit == 2 && attr.max_wr >= 8);
  struct ibv_send_wr wr = {.wr_id = 11, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
  struct ibv_send_wr* bad = NULL;
  CHECK(ibv_post_send(from, &wr, &bad) == 0);
  for (int i = 0; i < 2; ++i) CHECK(next_completion(p->cq).status == IBV_WC_SUCCESS);
  struct ibv_async_event event = next_event(p->context);
  CHECK(event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == srq);
  ibv_ack_async_event(&event);
  CHECK(ibv_query_srq(srq, &attr) == 0 && attr.srq_limit == 0); /* it was for once */

  CHECK(ibv_destroy_srq(srq) == EBUSY);
  struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
  CHECK(ibv_modify_qp(to, &error, IBV_QP_STATE) == 0);
  expect_qp_event(p->context, to, IBV_EVENT_QP_LAST_WQE_REACHED);
  CHECK(ibv_destroy_qp(to) == 0 && ibv_destroy_qp(from) == 0 && ibv_destroy_srq(srq) == 0);
}

/* A completion queue that overruns, and its queue pair with it. */
static void test_overrun(struct pair* p) {
  struct ibv_cq* small = ibv_create_cq(p->context, 1, NULL, NULL, 0);
  struct ibv_qp* qp[2] = {create_qp_on(p->pd, small, NULL), create_qp_on(p->pd, p->cq, NULL)};
  for (int i = 0; i < 2; ++i) to_rts(qp[i], qp[1 - i]->qp_num);
  for (int i = 0; i < small->cqe + 1; ++i) {
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr* bad = NULL;
    CHECK(ibv_post_send(qp[0], &wr, &bad) == 0);
  }
  struct ibv_async_event event = next_event(p->context);
  CHECK(event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == small);
  ibv_ack_async_event(&event);
  expect_qp_event(p->context, qp[0], IBV_EVENT_QP_FATAL);
  CHECK(ibv_destroy_qp(qp[0]) == 0 && ibv_destroy_qp(qp[1]) == 0 && ibv_destroy_cq(small) == 0);
}

int main(void) {
  struct pair p = connect_pair();
  struct ibv_context* other = open_loopback();
  for (int i = 0; i < 2; ++i) {
    struct ibv_context* context = i == 0 ? p.context : other;
    const int flags = fcntl(context->async_fd, F_GETFL);
    CHECK(fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK) == 0);
    expect_no_event(context);
  }
  test_communication_established(&p);
  test_drained(&p);
  test_shared_receive_queue(&p);
  test_overrun(&p);
  test_access_error(&p);
  struct ibv_qp* qp[2] = {create_rc_qp(p.pd, p.cq), create_rc_qp(p.pd, p.cq)};
  for (int i = 0; i < 2; ++i) {
    CHECK(ibv_destroy_qp(p.qp[i]) == 0);
    to_init(p.qp[i] = qp[i]);
  }
  for (int i = 0; i < 2; ++i) to_rts(qp[i], qp[1 - i]->qp_num);
  test_destroy_waits_for_acknowledgement(&p);
  expect_no_event(p.context);
  expect_no_event(other); /* nothing there was its own */
  CHECK(ibv_close_device(other) == 0);
  CHECK(ibv_close_device(p.context) == 0); /* the rest goes with it */
  free(p.memory);
  return 0;
}
