/* --break: wrong orders on the way to a connection, each in a function that reads from top to
 * bottom. */

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "labs/cm/scene.h"

/* In a process of its own, because it may not survive. Returns the errno, or 0. */
static int route_without_address(void) {
  const struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  signal(SIGSEGV, SIG_DFL);
  struct rdma_event_channel* channel = rdma_create_event_channel();
  struct rdma_cm_id* id = NULL;
  if (channel == NULL || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) != 0) return EIO;
  return rdma_resolve_route(id, 2000) == 0 ? 0 : errno;
}

void cm_break_route_first(const struct lab_options* options) {
  const pid_t child = fork(); /* before the first verb of this process */
  lab_check(child >= 0, "fork: %s", strerror(errno));
  if (child == 0) _exit(route_without_address());
  int status = 0;
  lab_check(waitpid(child, &status, 0) == child, "waitpid: %s", strerror(errno));
  const bool died = WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
  lab_check(died || WEXITSTATUS(status) == EINVAL, "wait status %#x", (unsigned)status);
  lab_say("wrong: rdma_resolve_route without an address: %s",
          died ? "the program is dead (SIGSEGV)" : "-1, EINVAL");
  lab_say(
      "       an id without an address has no device: id->verbs is NULL, and librdmacm may use it");
  struct cm_scene scene = cm_scene_of(options);
  cm_scene_listen(&scene);
  lab_check(scene.client->verbs == NULL, "a new id has a device");
  cm_scene_resolve_address(&scene);
  cm_scene_resolve_route(&scene);
  cm_right("route-first", "no device yet: librdmacm refuses or crashes",
           "rdma_resolve_addr, ADDR_RESOLVED, rdma_resolve_route, ROUTE_RESOLVED");
  cm_scene_end(&scene);
}

void cm_break_connect_first(const struct lab_options* options) {
  struct cm_scene scene = cm_scene_of(options);
  cm_scene_listen(&scene);
  cm_scene_resolve_address(&scene);
  cm_scene_make_qp(&scene, scene.client); /* the device is known: this much is in order */
  struct rdma_conn_param parameters = {.retry_count = 7};
  cm_refused("rdma_connect without a route", rdma_connect(scene.client, &parameters), EINVAL);
  cm_scene_resolve_route(&scene);
  LAB_CALL(rdma_connect(scene.client, &parameters));
  cm_scene_request(&scene);
  cm_right("connect-first", "EINVAL; after ROUTE_RESOLVED the same call sent its request",
           "rdma_resolve_route, ROUTE_RESOLVED, then rdma_connect");
  cm_scene_end(&scene);
}

void cm_break_connect_without_qp(const struct lab_options* options) {
  struct cm_scene scene = cm_scene_of(options);
  cm_scene_listen(&scene);
  cm_scene_resolve_address(&scene);
  cm_scene_resolve_route(&scene);
  struct rdma_conn_param parameters = {.retry_count = 7}; /* and .qp_num is 0 */
  LAB_CALL(rdma_connect(scene.client, &parameters));
  lab_say(
      "wrong: rdma_connect without a QP gives 0: the number in rdma_conn_param is sent, here 0");
  cm_scene_request(&scene);
  cm_scene_make_qp(&scene, scene.server);
  LAB_CALL(rdma_accept(scene.server, &parameters));
  /* librdmacm has no QP to take to RTR and RTS, so it can't establish the connection for us. */
  struct rdma_cm_event* event =
      cm_scene_event(&scene, scene.of_client, RDMA_CM_EVENT_CONNECT_RESPONSE);
  LAB_CALL(rdma_ack_cm_event(event));
  cm_right(
      "connect-without-qp", "CONNECT_RESPONSE came instead of ESTABLISHED",
      "rdma_create_qp before rdma_connect; or your own QP: its number in qp_num, its states by "
      "hand, then rdma_establish");
  cm_scene_end(&scene);
}

void cm_break_accept_without_qp(const struct lab_options* options) {
  struct cm_scene scene = cm_scene_of(options);
  cm_scene_listen(&scene);
  cm_scene_resolve_address(&scene);
  cm_scene_resolve_route(&scene);
  cm_scene_make_qp(&scene, scene.client);
  struct rdma_conn_param parameters = {.retry_count = 7}; /* and .qp_num is 0 */
  LAB_CALL(rdma_connect(scene.client, &parameters));
  cm_scene_request(&scene);
  LAB_CALL(rdma_accept(scene.server, &parameters));
  lab_say("wrong: rdma_accept without a QP gives 0: the client is told QP number 0");
  struct rdma_cm_event* event = cm_scene_event(&scene, scene.of_client, RDMA_CM_EVENT_ESTABLISHED);
  lab_check(event->param.conn.qp_num == 0, "QP number %#x came", event->param.conn.qp_num);
  LAB_CALL(rdma_ack_cm_event(event));
  lab_say("       the client's QP is in %s; whatever it sends, nobody is there to take it",
          cm_state(scene.client->qp));
  cm_right("accept-without-qp", "the client is ESTABLISHED with QP number 0, which is nobody's",
           "rdma_create_qp on the id of the CONNECT_REQUEST, then rdma_accept");
  cm_scene_end(&scene);
}

void cm_break_listen_first(const struct lab_options* options) {
  struct cm_scene scene = cm_scene_of(options);
  LAB_CALL(rdma_listen(scene.listener, 1));
  lab_check(rdma_get_src_port(scene.listener) != 0, "it listens on port 0");
  lab_say("wrong: rdma_listen without rdma_bind_addr gives 0: it listens on %s",
          lab_address_text(rdma_get_local_addr(scene.listener)));
  cm_right("listen-first", "no error: it listens on a port that nobody chose",
           "rdma_bind_addr with the port that clients know, then rdma_listen");
  cm_scene_end(&scene);
}

void cm_break_bind_twice(const struct lab_options* options) {
  struct cm_scene scene = cm_scene_of(options);
  cm_scene_listen(&scene);
  struct rdma_cm_id* second = NULL;
  LAB_CALL(rdma_create_id(scene.of_listener, &second, "second", RDMA_PS_TCP));
  cm_refused("rdma_bind_addr to a port that is taken",
             rdma_bind_addr(second, rdma_get_local_addr(scene.listener)), EADDRINUSE);
  LAB_CALL(rdma_destroy_id(second));
  cm_right("bind-twice", "EADDRINUSE: a port has one listener",
           "another port, or port 0 and rdma_get_src_port");
  cm_scene_end(&scene);
}
