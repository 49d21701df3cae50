#pragma once

/* For --break: both ends in this process, taken as far as the wrong step needs. Each line is one of
 * those of server.c and client.c. */

#include "labs/cm/cm.h"

struct cm_scene {
  const struct lab_options* options;
  struct rdma_event_channel *of_listener, *of_client;
  struct rdma_cm_id *listener, *client, *server; /* the last one comes with a request */
  struct ibv_pd* pd;                             /* one PD and one CQ for both QPs */
  struct ibv_cq* cq;
};

struct cm_scene cm_scene_of(const struct lab_options* options);
/* The listener is bound, and listens. */
void cm_scene_bind(struct cm_scene* scene);
void cm_scene_listen(struct cm_scene* scene);
/* The client's steps. */
void cm_scene_resolve_address(struct cm_scene* scene);
void cm_scene_resolve_route(struct cm_scene* scene);
void cm_scene_make_qp(struct cm_scene* scene, struct rdma_cm_id* id);
/* Takes the next event, which must be this one. The caller acknowledges it. */
struct rdma_cm_event* cm_scene_event(struct cm_scene* scene, struct rdma_event_channel* from,
                                     enum rdma_cm_event_type wanted);
/* CONNECT_REQUEST: makes `scene->server`. */
void cm_scene_request(struct cm_scene* scene);
/* In the right order, whatever there is. */
void cm_scene_end(struct cm_scene* scene);

/* "wrong: CALL" and what it gave; ends the lab if that isn't -1 and `code`. */
void cm_refused(const char* call, int result, int code);
/* "right: ORDER" and the line for the table. */
void cm_right(const char* name, const char* came, const char* order);
