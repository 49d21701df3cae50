/* --endpoint: the other end of endpoint_server.c. */

#include <endian.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>

#include "labs/cm/cm.h"

enum { kLastAnswer = 6000 }; /* milliseconds; rdma_cm repeats its goodbye after 4.3 s */

void cm_endpoint_client(const struct lab_options* options) {
  /* 2. The address in rdma_cm's form; then channel, id, address, route and QP in one call. */
  char port[8];
  snprintf(port, sizeof port, "%u", options->port);
  struct sockaddr_storage from;
  struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_qp_type = IBV_QPT_RC};
  hints.ai_src_len = lab_source_address(options, &from); /* 0: any of ours */
  if (hints.ai_src_len > 0) hints.ai_src_addr = (struct sockaddr*)&from;
  struct rdma_addrinfo* to = NULL;
  if (rdma_getaddrinfo(options->host, port, &hints, &to) != 0) {
    lab_not_there(options, "rdma_getaddrinfo", errno, "");
  }
  struct ibv_qp_init_attr qp = cm_endpoint_qp();
  struct rdma_cm_id* id = NULL;
  lab_check(rdma_create_ep(&id, to, NULL, &qp) == 0, "rdma_create_ep: %s:%u: %s", options->host,
            options->port, cm_endpoint_failed(errno));
  rdma_freeaddrinfo(to);
  lab_say(" 2 rdma_getaddrinfo, rdma_create_ep: QP %#x on device %s in %s", id->qp->qp_num,
          ibv_get_device_name(id->verbs->device), cm_state(id->qp));

  /* 5. Connect, which returns when the server has accepted: the event hangs on the id. */
  struct cm_request request = {.size = htobe64(options->size)};
  lab_badge(options, request.badge);
  struct rdma_conn_param parameters = {.private_data = &request,
                                       .private_data_len = sizeof request,
                                       .responder_resources = 1,
                                       .initiator_depth = 1,
                                       .retry_count = 7,
                                       .rnr_retry_count = 7};
  if (rdma_connect(id, &parameters) != 0) {
    lab_not_there(options, "rdma_connect", errno, errno == ECONNREFUSED ? "rejected" : "");
  }
  const struct rdma_conn_param* offer = &id->event->param.conn;
  const char* why = lab_stranger(options, offer->private_data, offer->private_data_len);
  lab_check(why == NULL, "%s: %s", lab_address_text(rdma_get_peer_addr(id)), why ? why : "");
  struct cm_reply reply;
  memcpy(&reply, offer->private_data, sizeof reply);
  const uint64_t number = be64toh(reply.number);
  lab_say(" 5 rdma_connect: the server wants message %ju; the QP is in %s", (uintmax_t)number,
          cm_state(id->qp));

  /* 7. One message. rdma_post_send fills an ibv_send_wr and calls ibv_post_send. */
  void* memory = malloc(options->size);
  lab_check(memory != NULL, "malloc: %s", strerror(errno));
  lab_fill(memory, options->size, number);
  struct ibv_mr* mr = rdma_reg_msgs(id, memory, options->size);
  lab_check(mr != NULL, "rdma_reg_msgs: %s", strerror(errno));
  LAB_CALL(rdma_post_send(id, NULL, memory, options->size, mr, IBV_SEND_SIGNALED));
  struct ibv_wc done;
  lab_check(rdma_get_send_comp(id, &done) == 1, "rdma_get_send_comp: %s", strerror(errno));
  lab_check(done.status == IBV_WC_SUCCESS, "the SEND: %s", ibv_wc_status_str(done.status));
  lab_say(" 7 rdma_reg_msgs, rdma_post_send, rdma_get_send_comp: sent %zu bytes", options->size);

  /* 9. Hang up. rdma_disconnect would wait for the server's answer, which may be lost: a channel of
   *    our own makes the id one that doesn't wait, so that we can give up. */
  struct rdma_event_channel* channel = rdma_create_event_channel();
  lab_check(channel != NULL, "rdma_create_event_channel: %s", strerror(errno));
  LAB_CALL(rdma_migrate_id(id, channel));
  LAB_CALL(rdma_disconnect(id));
  if (lab_readable_within(options, channel->fd, kLastAnswer)) {
    struct rdma_cm_event* event = NULL;
    LAB_CALL(rdma_get_cm_event(channel, &event));
    LAB_CALL(rdma_ack_cm_event(event));
  }
  LAB_CALL(rdma_dereg_mr(mr));
  free(memory);
  rdma_destroy_ep(id);
  rdma_destroy_event_channel(channel);
  lab_say(" 9 rdma_migrate_id, rdma_disconnect, rdma_dereg_mr, rdma_destroy_ep");
  lab_shown("the same connection by rdma_create_ep: each call waits for its own event");
}
