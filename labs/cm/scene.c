#include "labs/cm/scene.h"

#include <netinet/in.h>
#include <string.h>

enum { kPatience = 2000 }; /* milliseconds */

struct cm_scene cm_scene_of(const struct lab_options* options) {
  struct cm_scene scene = {.options = options,
                           .of_listener = rdma_create_event_channel(),
                           .of_client = rdma_create_event_channel()};
  lab_check(scene.of_listener != NULL && scene.of_client != NULL, "rdma_create_event_channel: %s",
            strerror(errno));
  LAB_CALL(rdma_create_id(scene.of_listener, &scene.listener, "listener", RDMA_PS_TCP));
  LAB_CALL(rdma_create_id(scene.of_client, &scene.client, "client's id", RDMA_PS_TCP));
  return scene;
}

void cm_scene_bind(struct cm_scene* scene) {
  struct sockaddr_storage here;
  lab_listen_address(scene->options, &here);
  LAB_CALL(rdma_bind_addr(scene->listener, (struct sockaddr*)&here));
}

void cm_scene_listen(struct cm_scene* scene) {
  cm_scene_bind(scene);
  LAB_CALL(rdma_listen(scene->listener, 1));
}

struct rdma_cm_event* cm_scene_event(struct cm_scene* scene, struct rdma_event_channel* from,
                                     enum rdma_cm_event_type wanted) {
  struct rdma_cm_event* event = NULL;
  lab_wait_for(scene->options, from->fd, rdma_event_str(wanted));
  LAB_CALL(rdma_get_cm_event(from, &event));
  cm_show_event(event);
  lab_check(event->event == wanted, "expected %s, came %s with status %d", rdma_event_str(wanted),
            rdma_event_str(event->event), event->status);
  return event;
}

void cm_scene_resolve_address(struct cm_scene* scene) {
  struct sockaddr_storage to;
  lab_server_address(scene->options, &to);
  const uint16_t port = rdma_get_src_port(scene->listener);
  if (to.ss_family == AF_INET6) ((struct sockaddr_in6*)&to)->sin6_port = port;
  if (to.ss_family == AF_INET) ((struct sockaddr_in*)&to)->sin_port = port;
  LAB_CALL(rdma_resolve_addr(scene->client, NULL, (struct sockaddr*)&to, kPatience));
  LAB_CALL(rdma_ack_cm_event(cm_scene_event(scene, scene->of_client, RDMA_CM_EVENT_ADDR_RESOLVED)));
}

void cm_scene_resolve_route(struct cm_scene* scene) {
  LAB_CALL(rdma_resolve_route(scene->client, kPatience));
  LAB_CALL(
      rdma_ack_cm_event(cm_scene_event(scene, scene->of_client, RDMA_CM_EVENT_ROUTE_RESOLVED)));
}

void cm_scene_make_qp(struct cm_scene* scene, struct rdma_cm_id* id) {
  if (scene->pd == NULL) scene->pd = ibv_alloc_pd(id->verbs);
  lab_check(scene->pd != NULL, "ibv_alloc_pd: %s", strerror(errno));
  if (scene->cq == NULL) scene->cq = ibv_create_cq(id->verbs, 4, NULL, NULL, 0);
  lab_check(scene->cq != NULL, "ibv_create_cq: %s", strerror(errno));
  struct ibv_qp_init_attr wish = {
      .send_cq = scene->cq,
      .recv_cq = scene->cq,
      .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
      .qp_type = IBV_QPT_RC};
  LAB_CALL(rdma_create_qp(id, scene->pd, &wish));
}

void cm_scene_request(struct cm_scene* scene) {
  struct rdma_cm_event* event =
      cm_scene_event(scene, scene->of_listener, RDMA_CM_EVENT_CONNECT_REQUEST);
  scene->server = event->id;
  scene->server->context = "server's id";
  LAB_CALL(rdma_ack_cm_event(event));
}

void cm_scene_end(struct cm_scene* scene) {
  struct rdma_cm_id* ids[] = {scene->client, scene->server, scene->listener};
  for (int i = 0; i < 3; ++i) {
    if (ids[i] == NULL) continue;
    if (ids[i]->qp != NULL) rdma_destroy_qp(ids[i]);
    LAB_CALL(rdma_destroy_id(ids[i]));
  }
  if (scene->cq != NULL) LAB_VERB(ibv_destroy_cq(scene->cq));
  rdma_destroy_event_channel(scene->of_client);
  rdma_destroy_event_channel(scene->of_listener);
  if (scene->pd != NULL) LAB_VERB(ibv_dealloc_pd(scene->pd));
}

void cm_refused(const char* call, int result, int code) {
  const int found = errno;
  lab_check(result == -1 && found == code, "%s gave %d, errno %d (%s); expected was %s", call,
            result, found, strerror(found), strerror(code));
  lab_say("wrong: %s gives -1, errno %d (%s)", call, code, strerror(code));
}

void cm_right(const char* name, const char* came, const char* order) {
  lab_say("right: %s", order);
  lab_shown("--break %s: %s", name, came);
}
