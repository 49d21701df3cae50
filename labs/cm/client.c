/* The client: steps 3 to 6, 10, 12, 14 and 16. The others are the server's. */

#include <endian.h>
#include <stdlib.h>

#include "labs/cm/cm.h"

enum { kPatience = 2000 };   /* milliseconds for an address, and for a route */
enum { kLastAnswer = 6000 }; /* rdma_cm repeats its goodbye after 4.3 s */

void cm_client(const struct lab_options* options) {
  /* 3. A channel and an id. The id has no device yet: nothing can be allocated. */
  struct rdma_event_channel* channel = rdma_create_event_channel();
  lab_check(channel != NULL, "rdma_create_event_channel: %s", strerror(errno));
  struct rdma_cm_id* id = NULL;
  LAB_CALL(rdma_create_id(channel, &id, "client's id", RDMA_PS_TCP));
  lab_say(" 3 an id; its device: %s", id->verbs ? "known" : "not known");

  /* 4. The address: which device of ours leads there? The routes of the machine say so. The call
   *    returns at once; the event says how it went. */
  struct sockaddr_storage to, from;
  lab_server_address(options, &to);
  const bool chosen = lab_source_address(options, &from) > 0;        /* by --device */
  struct sockaddr* source = chosen ? (struct sockaddr*)&from : NULL; /* NULL: any of ours */
  if (rdma_resolve_addr(id, source, (struct sockaddr*)&to, kPatience) != 0) {
    lab_not_there(options, "rdma_resolve_addr", errno, "");
  }
  struct rdma_cm_event* event = NULL;
  lab_wait_for(options, channel->fd, "the address");
  LAB_CALL(rdma_get_cm_event(channel, &event));
  lab_say(" 4 the address is resolved");
  cm_expect(options, event, RDMA_CM_EVENT_ADDR_RESOLVED);
  LAB_CALL(rdma_ack_cm_event(event));
  lab_say("   device %s, port %d; we are %s", ibv_get_device_name(id->verbs->device), id->port_num,
          lab_address_text(rdma_get_local_addr(id)));

  /* 5. The route: the path through the fabric. For RoCE the routing table gives it. */
  LAB_CALL(rdma_resolve_route(id, kPatience));
  lab_wait_for(options, channel->fd, "the route");
  LAB_CALL(rdma_get_cm_event(channel, &event));
  lab_say(" 5 the route is resolved");
  cm_expect(options, event, RDMA_CM_EVENT_ROUTE_RESOLVED);
  LAB_CALL(rdma_ack_cm_event(event));
  lab_say("   paths: %d", id->route.num_paths);

  /* 6. What a connection needs, on that device. Then connect: the REQ has the number of the QP, its
   *    first PSN, and our private data. */
  struct ibv_pd* pd = ibv_alloc_pd(id->verbs);
  lab_check(pd != NULL, "ibv_alloc_pd: %s", strerror(errno));
  struct ibv_comp_channel* completions = ibv_create_comp_channel(id->verbs);
  lab_check(completions != NULL, "ibv_create_comp_channel: %s", strerror(errno));
  struct ibv_cq* cq = ibv_create_cq(id->verbs, 4, NULL, completions, 0);
  lab_check(cq != NULL, "ibv_create_cq: %s", strerror(errno));
  LAB_VERB(ibv_req_notify_cq(cq, 0));
  struct ibv_qp_init_attr wish = {
      .send_cq = cq,
      .recv_cq = cq,
      .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
      .qp_type = IBV_QPT_RC};
  LAB_CALL(rdma_create_qp(id, pd, &wish));
  lab_say(" 6 PD, completion channel, CQ, QP %#x; the QP is in %s", id->qp->qp_num,
          cm_state(id->qp));
  struct cm_request request = {.size = htobe64(options->size)};
  lab_badge(options, request.badge);
  struct rdma_conn_param parameters = {.private_data = &request,
                                       .private_data_len = sizeof request,
                                       .responder_resources = 1,
                                       .initiator_depth = 1,
                                       .retry_count = 7,
                                       .rnr_retry_count = 7};
  LAB_CALL(rdma_connect(id, &parameters));

  /* 10. ESTABLISHED: the server's REP is here. Taking the event moved the QP to RTR and RTS, and
   * sent the RTU. With it came the server's private data. */
  if (!lab_readable(options, channel->fd)) {
    lab_not_there(options, "rdma_connect", ETIMEDOUT, "no answer in --timeout");
  }
  LAB_CALL(rdma_get_cm_event(channel, &event));
  lab_say("10 the server has accepted");
  cm_expect(options, event, RDMA_CM_EVENT_ESTABLISHED);
  const struct rdma_conn_param* offer = &event->param.conn;
  const char* why = lab_stranger(options, offer->private_data, offer->private_data_len);
  lab_check(why == NULL, "%s: %s", lab_address_text(rdma_get_peer_addr(id)), why ? why : "");
  struct cm_reply reply;
  memcpy(&reply, offer->private_data, sizeof reply);
  LAB_CALL(rdma_ack_cm_event(event));
  const uint64_t number = be64toh(reply.number);
  lab_say("   connected to %s, which wants message %ju; the QP is in %s",
          lab_address_text(rdma_get_peer_addr(id)), (uintmax_t)number, cm_state(id->qp));

  /* 12. One message, to prove it. From here on it is verbs alone. */
  void* memory = malloc(options->size);
  lab_check(memory != NULL, "malloc: %s", strerror(errno));
  lab_fill(memory, options->size, number);
  struct ibv_mr* mr = ibv_reg_mr(pd, memory, options->size, 0);
  lab_check(mr != NULL, "ibv_reg_mr: %s", strerror(errno));
  struct ibv_sge bytes = {
      .addr = (uintptr_t)memory, .length = (uint32_t)options->size, .lkey = mr->lkey};
  struct ibv_send_wr send = {.wr_id = 1,
                             .sg_list = &bytes,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED};
  struct ibv_send_wr* bad = NULL;
  LAB_VERB(ibv_post_send(id->qp, &send, &bad));
  lab_wait_for(options, completions->fd, "the completion of the SEND");
  struct ibv_cq* of_event = NULL;
  void* context = NULL;
  LAB_CALL(ibv_get_cq_event(completions, &of_event, &context));
  ibv_ack_cq_events(of_event, 1);
  struct ibv_wc done;
  lab_check(ibv_poll_cq(cq, 1, &done) == 1, "the CQ had an event, but it is empty");
  lab_check(done.status == IBV_WC_SUCCESS, "the SEND: %s", ibv_wc_status_str(done.status));
  lab_say("12 sent %zu bytes; request %ju is complete", options->size, (uintmax_t)done.wr_id);

  /* 14. Hang up. The QP goes to ERR at once, and the server is told (DREQ). */
  LAB_CALL(rdma_disconnect(id));
  lab_say("14 hung up; the QP is in %s", cm_state(id->qp));

  /* 16. DISCONNECTED here, too: the server has answered (DREP). If that answer is lost, nobody is
   * left to repeat it, and nothing is missing. */
  if (lab_readable_within(options, channel->fd, kLastAnswer)) {
    LAB_CALL(rdma_get_cm_event(channel, &event));
    lab_say("16 the server has answered the goodbye");
    cm_expect(options, event, RDMA_CM_EVENT_DISCONNECTED);
    LAB_CALL(rdma_ack_cm_event(event));
  } else {
    lab_say("16 the server's answer to the goodbye was lost");
  }

  /* 17. Clean up, in the same order as the server. */
  rdma_destroy_qp(id);
  LAB_VERB(ibv_dereg_mr(mr));
  free(memory);
  LAB_CALL(rdma_destroy_id(id));
  LAB_VERB(ibv_destroy_cq(cq));
  LAB_VERB(ibv_destroy_comp_channel(completions));
  rdma_destroy_event_channel(channel);
  LAB_VERB(ibv_dealloc_pd(pd));
  lab_shown("resolve, connect, accept, established, disconnected: each event, its fields, its ack");
}
