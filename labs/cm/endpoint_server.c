/* --endpoint: the connection of server.c and client.c once more. rdma_create_ep makes ids that wait
 * for each event and acknowledge it by themselves; PD, CQs and their channels come with the QP. On
 * the wire nothing differs: either end may be of the other kind. */

#include <endian.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>

#include "labs/cm/cm.h"

struct ibv_qp_init_attr cm_endpoint_qp(void) {
  return (struct ibv_qp_init_attr){
      .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
      .qp_type = IBV_QPT_RC,
      .sq_sig_all = 1};
}

const char* cm_endpoint_failed(int code) {
  static char words[256];
  snprintf(words, sizeof words,
           "one of its steps failed, and errno %d (%s) may be that of its own clean-up; without "
           "--endpoint the lab says which step, and why",
           code, strerror(code));
  return words;
}

void cm_endpoint_server(const struct lab_options* options) {
  /* 1. Channel, id, rdma_bind_addr in one call; the QP of each connection will be made of `qp`. */
  struct sockaddr_storage here;
  const socklen_t length = lab_listen_address(options, &here);
  struct rdma_addrinfo at = {.ai_flags = RAI_PASSIVE,
                             .ai_family = here.ss_family,
                             .ai_qp_type = IBV_QPT_RC,
                             .ai_port_space = RDMA_PS_TCP,
                             .ai_src_len = length,
                             .ai_src_addr = (struct sockaddr*)&here};
  struct ibv_qp_init_attr qp = cm_endpoint_qp();
  struct rdma_cm_id *listener = NULL, *id = NULL;
  lab_check(rdma_create_ep(&listener, &at, NULL, &qp) == 0, "rdma_create_ep: %s: %s",
            lab_address_text((struct sockaddr*)&here), cm_endpoint_failed(errno));
  LAB_CALL(rdma_listen(listener, 8));
  lab_say(" 1 rdma_create_ep, rdma_listen: %s", lab_address_text(rdma_get_local_addr(listener)));
  lab_ready(ntohs(rdma_get_src_port(listener)));

  /* 3. CONNECT_REQUEST, its id and its QP in one call. The event hangs on the id until the next
   *    call acknowledges it. */
  struct cm_request request;
  while (id == NULL) {
    if (!lab_readable(options, listener->channel->fd)) lab_nobody_came(options);
    LAB_CALL(rdma_get_request(listener, &id));
    const struct rdma_conn_param* offer = &id->event->param.conn;
    const char* why = lab_stranger(options, offer->private_data, offer->private_data_len);
    if (why == NULL) {
      memcpy(&request, offer->private_data, sizeof request);
      continue;
    }
    lab_say("%s is turned away: %s", lab_address_text(rdma_get_peer_addr(id)), why);
    struct cm_reply refusal = {.number = 0};
    lab_badge(options, refusal.badge);
    rdma_reject(id, &refusal, sizeof refusal.badge);
    rdma_destroy_ep(id);
    id = NULL;
  }
  const uint64_t size = be64toh(request.size);
  lab_check(size >= 1 && size <= kMost, "the client asks for %ju bytes; possible are 1 to %d",
            (uintmax_t)size, kMost);
  lab_say(" 3 rdma_get_request: a new id with QP %#x in %s", id->qp->qp_num, cm_state(id->qp));

  /* 4. Memory for messages, one receive, and accept, which returns when the client is ready. */
  void* memory = malloc(size);
  lab_check(memory != NULL, "malloc: %s", strerror(errno));
  struct ibv_mr* mr = rdma_reg_msgs(id, memory, size);
  lab_check(mr != NULL, "rdma_reg_msgs: %s", strerror(errno));
  LAB_CALL(rdma_post_recv(id, NULL, memory, size, mr));
  struct cm_reply reply = {.number = htobe64(kMessage)};
  lab_badge(options, reply.badge);
  struct rdma_conn_param answer = {.private_data = &reply,
                                   .private_data_len = sizeof reply,
                                   .responder_resources = 1,
                                   .initiator_depth = 1,
                                   .rnr_retry_count = 7};
  LAB_CALL(rdma_accept(id, &answer));
  lab_say(" 4 rdma_reg_msgs, rdma_post_recv, rdma_accept: the QP is in %s", cm_state(id->qp));
  const bool rtu_lost = id->event->event == RDMA_CM_EVENT_DISCONNECTED; /* see server.c, 11 */

  /* 6. The message; it waits for an event of the CQ if there is none yet. */
  struct ibv_wc done;
  lab_check(rdma_get_recv_comp(id, &done) == 1, "rdma_get_recv_comp: %s", strerror(errno));
  lab_check(done.status == IBV_WC_SUCCESS, "the receive: %s", ibv_wc_status_str(done.status));
  lab_check(done.byte_len == size, "%u bytes came instead of %ju", done.byte_len, (uintmax_t)size);
  lab_check_bytes(memory, size, kMessage, "the message");
  lab_say(" 6 rdma_get_recv_comp: %u bytes, each as it should be", done.byte_len);

  /* 8. The goodbye. rdma_disconnect would wait for one event more: a channel of our own makes the
   * id one that doesn't wait. Then destroy the endpoint: QP, CQs and their channels, id. */
  struct rdma_event_channel* channel = rdma_create_event_channel();
  lab_check(channel != NULL, "rdma_create_event_channel: %s", strerror(errno));
  LAB_CALL(rdma_migrate_id(id, channel));
  if (!rtu_lost) {
    struct rdma_cm_event* event = NULL;
    lab_wait_for(options, channel->fd, "the client's goodbye");
    LAB_CALL(rdma_get_cm_event(channel, &event));
    LAB_CALL(rdma_ack_cm_event(event));
  }
  LAB_CALL(rdma_disconnect(id));
  LAB_CALL(rdma_dereg_mr(mr));
  free(memory);
  rdma_destroy_ep(id);
  rdma_destroy_event_channel(channel);
  rdma_destroy_ep(listener);
  lab_say(" 8 rdma_migrate_id, rdma_disconnect, rdma_dereg_mr, rdma_destroy_ep");
}
