/* --break: requests that come to nothing. */

#include "labs/cm/scene.h"

void cm_break_no_listener(const struct lab_options* options) {
  struct cm_scene scene = cm_scene_of(options);
  cm_scene_bind(&scene); /* the port is ours, so nobody else listens there either */
  cm_scene_resolve_address(&scene);
  cm_scene_resolve_route(&scene);
  cm_scene_make_qp(&scene, scene.client);
  struct rdma_conn_param parameters = {.retry_count = 7};
  LAB_CALL(rdma_connect(scene.client, &parameters));
  lab_say("wrong: rdma_connect to a port without a listener gives 0; the event says no");
  struct rdma_cm_event* event = cm_scene_event(&scene, scene.of_client, RDMA_CM_EVENT_REJECTED);
  lab_check(event->status == 8, "status %d, expected 8 (invalid service id)", event->status);
  LAB_CALL(rdma_ack_cm_event(event));
  cm_right("no-listener", "REJECTED with status 8, invalid service id",
           "rdma_listen at the server, then rdma_connect at the client");
  cm_scene_end(&scene);
}

void cm_break_refuse(const struct lab_options* options) {
  struct cm_scene scene = cm_scene_of(options);
  cm_scene_listen(&scene);
  cm_scene_resolve_address(&scene);
  cm_scene_resolve_route(&scene);
  cm_scene_make_qp(&scene, scene.client);
  struct rdma_conn_param parameters = {.retry_count = 7};
  LAB_CALL(rdma_connect(scene.client, &parameters));
  cm_scene_request(&scene);
  static const char kWhy[] = "no room";
  LAB_CALL(rdma_reject(scene.server, kWhy, sizeof kWhy)); /* 148 bytes at most */
  struct rdma_cm_event* event = cm_scene_event(&scene, scene.of_client, RDMA_CM_EVENT_REJECTED);
  const struct rdma_conn_param* conn = &event->param.conn;
  lab_check(event->status == 28, "status %d, expected 28 (consumer reject)", event->status);
  lab_check(conn->private_data_len >= sizeof kWhy && strcmp(conn->private_data, kWhy) == 0,
            "the reason didn't come");
  lab_say("       the reason in the private data: \"%s\"; the QP is in %s",
          (const char*)conn->private_data, cm_state(scene.client->qp));
  LAB_CALL(rdma_ack_cm_event(event));
  cm_right("refuse", "REJECTED with status 28, and the server's own reason",
           "a server that doesn't want a client says why in the private data of rdma_reject");
  cm_scene_end(&scene);
}

void cm_break_too_much_data(const struct lab_options* options) {
  struct cm_scene scene = cm_scene_of(options);
  cm_scene_listen(&scene);
  cm_scene_resolve_address(&scene);
  cm_scene_resolve_route(&scene);
  cm_scene_make_qp(&scene, scene.client);
  static const uint8_t kData[57];
  struct rdma_conn_param parameters = {
      .retry_count = 7, .private_data = kData, .private_data_len = sizeof kData};
  cm_refused("rdma_connect with 57 bytes of private data", rdma_connect(scene.client, &parameters),
             EINVAL);
  cm_right("too-much-data", "EINVAL: a request has room for 56 bytes",
           "56 bytes for rdma_connect, 196 for rdma_accept, 148 for rdma_reject");
  cm_scene_end(&scene);
}
