/* --break: wrong orders at the end. */

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "labs/cm/scene.h"

void cm_break_disconnect_first(const struct lab_options* options) {
  struct cm_scene scene = cm_scene_of(options);
  cm_scene_listen(&scene);
  cm_scene_resolve_address(&scene);
  cm_scene_make_qp(&scene, scene.client);
  lab_say("       the QP is in %s", cm_state(scene.client->qp));
  cm_refused("rdma_disconnect without a connection", rdma_disconnect(scene.client), EINVAL);
  lab_say("       and yet the QP is in %s: librdmacm moved it there first",
          cm_state(scene.client->qp));
  lab_check(strcmp(cm_state(scene.client->qp), "ERR") == 0, "the QP isn't in ERR");
  cm_right("disconnect-first", "EINVAL, and the QP is in ERR all the same",
           "rdma_disconnect after ESTABLISHED; before it, rdma_destroy_id gives up the attempt");
  cm_scene_end(&scene);
}

/* In a thread of its own, because it blocks. */
struct destruction {
  struct rdma_cm_id* id;
  int result;
  int done; /* an eventfd: readable when it has returned */
};

static void* destroy(void* argument) {
  struct destruction* it = argument;
  it->result = rdma_destroy_id(it->id);
  const uint64_t one = 1;
  if (write(it->done, &one, sizeof one) != sizeof one) it->result = -1;
  return NULL;
}

void cm_break_ack_late(const struct lab_options* options) {
  enum { kLong = 200 }; /* milliseconds, for what takes microseconds */
  struct cm_scene scene = cm_scene_of(options);
  cm_scene_listen(&scene);
  struct sockaddr_storage to;
  lab_server_address(options, &to);
  LAB_CALL(rdma_resolve_addr(scene.client, NULL, (struct sockaddr*)&to, 2000));
  struct rdma_cm_event* event =
      cm_scene_event(&scene, scene.of_client, RDMA_CM_EVENT_ADDR_RESOLVED);

  struct destruction it = {.id = scene.client, .done = eventfd(0, EFD_CLOEXEC)};
  lab_check(it.done >= 0, "eventfd: %s", strerror(errno));
  pthread_t thread;
  LAB_VERB(pthread_create(&thread, NULL, destroy, &it));
  const bool early = lab_readable_within(options, it.done, kLong);
  lab_check(!early, "rdma_destroy_id returned although an event wasn't acknowledged");
  lab_say("wrong: rdma_destroy_id before rdma_ack_cm_event blocks: not back after %d ms", kLong);
  LAB_CALL(rdma_ack_cm_event(event));
  lab_wait_for(options, it.done, "rdma_destroy_id after the acknowledgement");
  LAB_VERB(pthread_join(thread, NULL));
  lab_check(it.result == 0, "rdma_destroy_id failed");
  lab_say("       acknowledged in another thread: now it returned");
  close(it.done);
  scene.client = NULL;
  cm_right("ack-late", "rdma_destroy_id blocks until the id's last event is acknowledged",
           "rdma_ack_cm_event for every event, then rdma_destroy_id");
  cm_scene_end(&scene);
}

/* Verbs return an errno where rdma_cm's calls return -1. */
static void busy(const char* call, int result) {
  lab_check(result == EBUSY, "%s gave %d (%s); expected was EBUSY", call, result, strerror(result));
  lab_say("wrong: %s gives %d (%s), and nothing is gone", call, result, strerror(result));
}

void cm_break_cq_first(const struct lab_options* options) {
  struct cm_scene scene = cm_scene_of(options);
  cm_scene_listen(&scene);
  cm_scene_resolve_address(&scene);
  cm_scene_make_qp(&scene, scene.client);
  busy("ibv_destroy_cq with a QP that uses it", ibv_destroy_cq(scene.cq));
  rdma_destroy_qp(scene.client);
  LAB_VERB(ibv_destroy_cq(scene.cq));
  scene.cq = NULL;
  cm_right("cq-first", "EBUSY; without the QP it went", "rdma_destroy_qp, then ibv_destroy_cq");
  cm_scene_end(&scene);
}

void cm_break_pd_first(const struct lab_options* options) {
  struct cm_scene scene = cm_scene_of(options);
  cm_scene_listen(&scene);
  cm_scene_resolve_address(&scene);
  struct ibv_pd* pd = ibv_alloc_pd(scene.client->verbs);
  lab_check(pd != NULL, "ibv_alloc_pd: %s", strerror(errno));
  static uint8_t memory[4096];
  struct ibv_mr* mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
  lab_check(mr != NULL, "ibv_reg_mr: %s", strerror(errno));
  busy("ibv_dealloc_pd with an MR in it", ibv_dealloc_pd(pd));
  LAB_VERB(ibv_dereg_mr(mr));
  LAB_VERB(ibv_dealloc_pd(pd));
  cm_right("pd-first", "EBUSY; without the MR it went",
           "ibv_dereg_mr and rdma_destroy_qp, then ibv_dealloc_pd");
  cm_scene_end(&scene);
}
