/* What the two roles of a small program on rdma_cm have in common: "PROGRAM serve|connect ADDRESS
 * PORT", an id, a queue pair of one request. */
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"

typedef void role(struct rdma_event_channel* channel, struct rdma_cm_id* id, struct sockaddr* at);
/* Checks that the next event is the wanted one; the program's own. */
static struct rdma_cm_event* expect(struct rdma_event_channel* channel,
                                    enum rdma_cm_event_type wanted);

static inline void make_pair(struct rdma_cm_id* id) {
  struct ibv_qp_init_attr init = {
      .qp_type = IBV_QPT_RC,
      .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
  MUST(rdma_create_qp(id, NULL, &init) == 0);
}

/* From a new id to one that can connect. */
static inline void prepare(struct rdma_event_channel* channel, struct rdma_cm_id* id,
                           struct sockaddr* at) {
  MUST(rdma_resolve_addr(id, NULL, at, 2000) == 0);
  MUST(rdma_ack_cm_event(expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED)) == 0);
  MUST(rdma_resolve_route(id, 2000) == 0);
  MUST(rdma_ack_cm_event(expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED)) == 0);
  make_pair(id);
}

static inline int run_role(int argc, char** argv, role* serve, role* client) {
  if (argc != 4) {
    fprintf(stderr, "usage: %s serve|connect ADDRESS PORT\n", argv[0]);
    return 2;
  }
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[3]))};
  MUST(inet_pton(AF_INET, argv[2], &at.sin_addr) == 1);
  struct rdma_event_channel* channel = rdma_create_event_channel();
  struct rdma_cm_id* id;
  MUST(channel != NULL && rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
  (strcmp(argv[1], "serve") == 0 ? serve : client)(channel, id, (struct sockaddr*)&at);
  MUST(rdma_destroy_id(id) == 0);
  rdma_destroy_event_channel(channel);
  return 0;
}
