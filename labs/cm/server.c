/* The server: steps 1, 2, 7 to 9, 11, 13 and on. The others are the client's. */

#include <arpa/inet.h>
#include <endian.h>
#include <stdlib.h>

#include "labs/cm/cm.h"

void cm_server(const struct lab_options* options) {
  /* 1. A channel brings events. An id is to rdma_cm what a descriptor is to sockets. */
  struct rdma_event_channel* channel = rdma_create_event_channel();
  lab_check(channel != NULL, "rdma_create_event_channel: %s", strerror(errno));
  struct rdma_cm_id* listener = NULL;
  LAB_CALL(rdma_create_id(channel, &listener, "listener", RDMA_PS_TCP));

  /* 2. Bind to an address and a port, and listen. On any address, no device is known yet. */
  struct sockaddr_storage here;
  lab_listen_address(options, &here);
  lab_check(rdma_bind_addr(listener, (struct sockaddr*)&here) == 0,
            "rdma_bind_addr: %s: %s; choose another --port, or a --device that this machine has",
            lab_address_text((struct sockaddr*)&here), strerror(errno));
  LAB_CALL(rdma_listen(listener, 8));
  lab_say(" 2 bound and listening: %s", lab_address_text(rdma_get_local_addr(listener)));
  lab_ready(ntohs(rdma_get_src_port(listener)));

  /* 7. CONNECT_REQUEST brings a new id: this connection's. Its device and its addresses are known.
   *    It has the listener's context and channel until it gets its own. The private data lie inside
   *    the event: copy them, then acknowledge the event. Whoever got it does that, once. */
  struct rdma_cm_event* event = NULL;
  struct rdma_cm_id* id = NULL;
  struct cm_request request;
  while (id == NULL) {
    if (!lab_readable(options, channel->fd)) lab_nobody_came(options);
    LAB_CALL(rdma_get_cm_event(channel, &event));
    lab_say(" 7 somebody wants to connect");
    cm_expect(options, event, RDMA_CM_EVENT_CONNECT_REQUEST);
    id = event->id;
    const struct rdma_conn_param* offer = &event->param.conn;
    const char* why = lab_stranger(options, offer->private_data, offer->private_data_len);
    if (why == NULL) memcpy(&request, offer->private_data, sizeof request);
    LAB_CALL(rdma_ack_cm_event(event)); /* `offer` is gone with it */
    if (why == NULL) continue;
    lab_say("%s is turned away: %s", lab_address_text(rdma_get_peer_addr(id)), why);
    struct cm_reply refusal = {.number = 0};
    lab_badge(options, refusal.badge);
    rdma_reject(id, &refusal, sizeof refusal.badge); /* fails if the client has left: no matter */
    LAB_CALL(rdma_destroy_id(id));
    id = NULL;
  }
  id->context = "server's id";
  const uint64_t size = be64toh(request.size);
  lab_check(size >= 1 && size <= kMost, "the client asks for %ju bytes; possible are 1 to %d",
            (uintmax_t)size, kMost);
  lab_say("   a new id on device %s; the client will send %ju bytes",
          ibv_get_device_name(id->verbs->device), (uintmax_t)size);

  /* 8. What a connection needs, on the device of the new id. The receive is posted before the
   * client can know that it is connected. */
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
  void* memory = malloc(size);
  lab_check(memory != NULL, "malloc: %s", strerror(errno));
  struct ibv_mr* mr = ibv_reg_mr(pd, memory, size, IBV_ACCESS_LOCAL_WRITE);
  lab_check(mr != NULL, "ibv_reg_mr: %s", strerror(errno));
  struct ibv_sge place = {.addr = (uintptr_t)memory, .length = (uint32_t)size, .lkey = mr->lkey};
  struct ibv_recv_wr receive = {.wr_id = 1, .sg_list = &place, .num_sge = 1}, *bad = NULL;
  LAB_VERB(ibv_post_recv(id->qp, &receive, &bad));
  lab_say(" 8 PD, completion channel, CQ, QP %#x, MR, one receive; the QP is in %s", id->qp->qp_num,
          cm_state(id->qp));

  /* 9. Accept. librdmacm first takes the QP to RTR and RTS, then sends the REP. */
  struct cm_reply reply = {.number = htobe64(kMessage)};
  lab_badge(options, reply.badge);
  struct rdma_conn_param answer = {.private_data = &reply,
                                   .private_data_len = sizeof reply,
                                   .responder_resources = 1,
                                   .initiator_depth = 1,
                                   .rnr_retry_count = 7};
  LAB_CALL(rdma_accept(id, &answer));
  lab_say(" 9 accepted; the QP is in %s", cm_state(id->qp));

  /* 11. ESTABLISHED: the client's RTU is here. It carries nothing. If the network loses it, the
   *     client's messages work all the same, and its goodbye (DREQ) may be the next event. */
  lab_wait_for(options, channel->fd, "the client's word that it is ready (RTU)");
  LAB_CALL(rdma_get_cm_event(channel, &event));
  const bool rtu_lost = event->event == RDMA_CM_EVENT_DISCONNECTED;
  lab_say(rtu_lost ? "11 the RTU was lost, and the client has hung up since" : "11 connected");
  cm_expect(options, event, rtu_lost ? RDMA_CM_EVENT_DISCONNECTED : RDMA_CM_EVENT_ESTABLISHED);
  LAB_CALL(rdma_ack_cm_event(event));

  /* 13. The message: sleep until the CQ has an event, acknowledge it, arm again, then poll. */
  lab_wait_for(options, completions->fd, "the client's message");
  struct ibv_cq* of_event = NULL;
  void* context = NULL;
  LAB_CALL(ibv_get_cq_event(completions, &of_event, &context));
  ibv_ack_cq_events(of_event, 1);
  LAB_VERB(ibv_req_notify_cq(cq, 0));
  struct ibv_wc done;
  lab_check(ibv_poll_cq(cq, 1, &done) == 1, "the CQ had an event, but it is empty");
  lab_check(done.status == IBV_WC_SUCCESS, "the receive: %s", ibv_wc_status_str(done.status));
  lab_check(done.byte_len == size, "%u bytes came instead of %ju", done.byte_len, (uintmax_t)size);
  lab_check_bytes(memory, size, kMessage, "the message");
  lab_say("13 %u bytes came into receive %ju, each as it should be", done.byte_len,
          (uintmax_t)done.wr_id);

  /* 15. DISCONNECTED: the client has hung up. Calling rdma_disconnect, too, answers it. */
  if (!rtu_lost) {
    lab_wait_for(options, channel->fd, "the client's goodbye");
    LAB_CALL(rdma_get_cm_event(channel, &event));
    lab_say("15 the client has hung up; the QP is in %s", cm_state(id->qp));
    cm_expect(options, event, RDMA_CM_EVENT_DISCONNECTED);
    LAB_CALL(rdma_ack_cm_event(event));
  }
  LAB_CALL(rdma_disconnect(id));
  lab_say("   answered; the QP is in %s", cm_state(id->qp));

  /* 17. Clean up: whatever uses a thing goes before it. The QP uses CQ, PD and id; the MR the PD.
   */
  rdma_destroy_qp(id);
  LAB_VERB(ibv_dereg_mr(mr));
  free(memory);
  LAB_CALL(rdma_destroy_id(id));
  LAB_CALL(rdma_destroy_id(listener));
  LAB_VERB(ibv_destroy_cq(cq));
  LAB_VERB(ibv_destroy_comp_channel(completions));
  rdma_destroy_event_channel(channel);
  LAB_VERB(ibv_dealloc_pd(pd));
  lab_say("17 QP, MR, ids, CQ, completion channel, event channel, PD: all gone");
}
