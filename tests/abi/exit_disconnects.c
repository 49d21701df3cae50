/* A program that ends by exit() without a word to its peer: what it had open of rdma_cm is closed
 * for it, as the kernel does, and the peer hears that the connection is over. */
#include <arpa/inet.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi.h"

static struct sockaddr_in loopback(uint16_t port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = port};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

/* The next event is this one. Its id. */
static struct rdma_cm_id* expect(struct rdma_event_channel* channel,
                                 enum rdma_cm_event_type wanted) {
  struct pollfd readable = {.fd = channel->fd, .events = POLLIN};
  struct rdma_cm_event* event;
  CHECK(poll(&readable, 1, 10000) == 1);
  CHECK(rdma_get_cm_event(channel, &event) == 0);
  if (event->event != wanted) {
    fprintf(stderr, "%s, not %s\n", rdma_event_str(event->event), rdma_event_str(wanted));
    exit(1);
  }
  struct rdma_cm_id* id = event->id;
  CHECK(rdma_ack_cm_event(event) == 0);
  return id;
}

static void create_qp(struct rdma_cm_id* id) {
  struct ibv_qp_init_attr init = {
      .qp_type = IBV_QPT_RC,
      .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
  CHECK(rdma_create_qp(id, NULL, &init) == 0);
}

static void connect_and_exit(uint16_t port) {
  struct rdma_event_channel* channel = rdma_create_event_channel();
  struct rdma_cm_id* id;
  struct sockaddr_in server = loopback(port);
  struct rdma_conn_param plain = {.retry_count = 7, .rnr_retry_count = 7};
  CHECK(channel != NULL);
  CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
  CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr*)&server, 2000) == 0);
  expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
  CHECK(rdma_resolve_route(id, 2000) == 0);
  expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
  create_qp(id);
  CHECK(rdma_connect(id, &plain) == 0);
  expect(channel, RDMA_CM_EVENT_ESTABLISHED);
  exit(0);
}

static void serve(int to_client) {
  struct rdma_event_channel* channel = rdma_create_event_channel();
  struct rdma_cm_id *listener, *id;
  struct sockaddr_in any = loopback(0);
  struct rdma_conn_param plain = {.retry_count = 7, .rnr_retry_count = 7};
  CHECK(channel != NULL);
  CHECK(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0);
  CHECK(rdma_bind_addr(listener, (struct sockaddr*)&any) == 0);
  CHECK(rdma_listen(listener, 1) == 0);
  uint16_t port = rdma_get_src_port(listener);
  CHECK(write(to_client, &port, sizeof port) == sizeof port);

  id = expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
  create_qp(id);
  CHECK(rdma_accept(id, &plain) == 0);
  expect(channel, RDMA_CM_EVENT_ESTABLISHED);
  CHECK(expect(channel, RDMA_CM_EVENT_DISCONNECTED) == id);
}

int main(void) {
  int port_pipe[2], status;
  CHECK(pipe(port_pipe) == 0);
  pid_t client = fork();
  CHECK(client >= 0);
  if (client == 0) {
    uint16_t port;
    CHECK(close(port_pipe[1]) == 0);
    CHECK(read(port_pipe[0], &port, sizeof port) == sizeof port);
    connect_and_exit(port);
  }
  serve(port_pipe[1]);
  CHECK(waitpid(client, &status, 0) == client && status == 0);
  return 0;
}
