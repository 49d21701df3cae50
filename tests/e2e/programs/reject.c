/* A server that refuses its client, and tells it why in private data.
 *
 *   reject serve ADDRESS PORT
 *   reject connect ADDRESS PORT
 *
 * Both print what they were told: the server the client's private data, the client the event, its
 * status and the server's private data. Exit status 0: as it should be.
 */
#include "cm_roles.h"

static const char kRequest[] = "may I?", kRefusal[] = "no, and this is why";

static struct rdma_cm_event* expect(struct rdma_event_channel* channel,
                                    enum rdma_cm_event_type wanted) {
  struct rdma_cm_event* event;
  MUST(rdma_get_cm_event(channel, &event) == 0);
  const struct rdma_conn_param* param = &event->param.conn;
  printf("%s, status %d, private data \"%.*s\"\n", rdma_event_str(event->event), event->status,
         param->private_data ? param->private_data_len : 0, (const char*)param->private_data);
  MUST(event->event == wanted);
  return event;
}

static void serve(struct rdma_event_channel* channel, struct rdma_cm_id* id, struct sockaddr* at) {
  MUST(rdma_bind_addr(id, at) == 0);
  MUST(rdma_listen(id, 1) == 0);
  struct rdma_cm_event* event = expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
  MUST(strcmp(event->param.conn.private_data, kRequest) == 0);
  struct rdma_cm_id* asking = event->id;
  MUST(rdma_reject(asking, kRefusal, sizeof kRefusal) == 0);
  MUST(rdma_ack_cm_event(event) == 0);
  MUST(rdma_destroy_id(asking) == 0);
}

static void ask(struct rdma_event_channel* channel, struct rdma_cm_id* id, struct sockaddr* at) {
  prepare(channel, id, at);
  struct rdma_conn_param param = {.private_data = kRequest, .private_data_len = sizeof kRequest};
  MUST(rdma_connect(id, &param) == 0);
  struct rdma_cm_event* event = expect(channel, RDMA_CM_EVENT_REJECTED);
  if (event->status == 28) { /* IBA 12.6.7.2: the consumer's own reason, not "nobody listens" */
    MUST(event->param.conn.private_data_len >= sizeof kRefusal);
    MUST(strcmp(event->param.conn.private_data, kRefusal) == 0);
  }
  const int refused = event->status;
  MUST(rdma_ack_cm_event(event) == 0);
  rdma_destroy_qp(id);
  if (refused != 28) exit(1);
}

int main(int argc, char** argv) { return run_role(argc, argv, serve, ask); }
