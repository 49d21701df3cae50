#pragma once

/* What the files of this lab share. The story itself stands in server.c and client.c. */

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "labs/common/lab_c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Private data travels with the connection messages, before any receive is posted. */
struct cm_request { /* the client's, in the REQ: 56 bytes at most */
  uint8_t badge[LAB_BADGE_SIZE];
  uint64_t size; /* in network order: how long its message will be */
};
struct cm_reply { /* the server's, in the REP: 196 bytes at most */
  uint8_t badge[LAB_BADGE_SIZE];
  uint64_t number; /* in network order: which message it wants to see */
};
enum { kMessage = 17, kMost = 1 << 20 };

/* Each tells its end of the story, from the first call to the last. */
void cm_server(const struct lab_options* options);
void cm_client(const struct lab_options* options);
/* The same by the calls that wait by themselves: rdma_create_ep and its friends. */
void cm_endpoint_server(const struct lab_options* options);
void cm_endpoint_client(const struct lab_options* options);
/* What both make their QPs of. */
struct ibv_qp_init_attr cm_endpoint_qp(void);
/* Why rdma_create_ep failed, as far as it says; good until the next call. */
const char* cm_endpoint_failed(int code);

/* --break: one wrong order each, and what comes of it. */
void cm_break_route_first(const struct lab_options* options);
void cm_break_connect_first(const struct lab_options* options);
void cm_break_connect_without_qp(const struct lab_options* options);
void cm_break_accept_without_qp(const struct lab_options* options);
void cm_break_listen_first(const struct lab_options* options);
void cm_break_bind_twice(const struct lab_options* options);
void cm_break_no_listener(const struct lab_options* options);
void cm_break_refuse(const struct lab_options* options);
void cm_break_too_much_data(const struct lab_options* options);
void cm_break_disconnect_first(const struct lab_options* options);
void cm_break_ack_late(const struct lab_options* options);
void cm_break_cq_first(const struct lab_options* options);
void cm_break_pd_first(const struct lab_options* options);

/* Prints every field of the event that means something for its type. */
void cm_show_event(const struct rdma_cm_event* event);
/* Prints it, and ends the lab if it isn't the one that was wanted. */
void cm_expect(const struct lab_options* options, const struct rdma_cm_event* event,
               enum rdma_cm_event_type wanted);
/* What the device says: "INIT". */
const char* cm_state(struct ibv_qp* qp);

#ifdef __cplusplus
}
#endif
