/* An event of rdma_cm, field by field. */

#include <stdio.h>

#include "labs/cm/cm.h"

/* An id's context is the program's. In this lab it is the id's name. */
static const char* name_of(const struct rdma_cm_id* id) {
  return id == NULL ? "none" : (const char*)id->context;
}

/* Which of them have parameters of a connection: the man page of rdma_get_cm_event. */
static bool has_parameters(enum rdma_cm_event_type type) {
  return type == RDMA_CM_EVENT_CONNECT_REQUEST || type == RDMA_CM_EVENT_CONNECT_RESPONSE ||
         type == RDMA_CM_EVENT_ESTABLISHED;
}

static void show_private_data(const struct rdma_conn_param* conn) {
  char text[3 * 8 + 1] = "";
  const uint8_t* bytes = conn->private_data;
  int used = conn->private_data_len;
  while (used > 0 && bytes[used - 1] == 0) --used;
  for (int i = 0; i < used && i < 8; ++i) sprintf(text + 3 * i, "%02x ", bytes[i]);
  lab_say("         private data: %d bytes, zeros behind the first %d: %s%s",
          conn->private_data_len, used, text, used > 8 ? "..." : "");
}

void cm_show_event(const struct rdma_cm_event* event) {
  lab_say("   event %s (%d), status %d", rdma_event_str(event->event), event->event, event->status);
  const bool fresh = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
  lab_say("         id: %s; listen_id: %s", fresh ? "a new one" : name_of(event->id),
          name_of(event->listen_id));
  const struct rdma_conn_param* conn = &event->param.conn;
  if (has_parameters(event->event)) {
    lab_say("         conn: qp_num %#x, responder_resources %d, initiator_depth %d,", conn->qp_num,
            conn->responder_resources, conn->initiator_depth);
    lab_say("               flow_control %d, retry_count %d, rnr_retry_count %d, srq %d",
            conn->flow_control, conn->retry_count, conn->rnr_retry_count, conn->srq);
  }
  if (conn->private_data_len > 0 &&
      (has_parameters(event->event) || event->event == RDMA_CM_EVENT_REJECTED)) {
    show_private_data(conn);
  }
}

static void rejected(const struct lab_options* options, const struct rdma_cm_event* event) {
  const struct rdma_conn_param* conn = &event->param.conn;
  if (lab_is_badge(conn->private_data, conn->private_data_len)) {
    const char* why = lab_stranger(options, conn->private_data, conn->private_data_len);
    lab_fail("%s: %s", lab_address_text(rdma_get_peer_addr(event->id)), why ? why : "rejected");
  }
  /* IB specification, table "REJ reason codes". */
  lab_not_there(options, "rdma_connect", ECONNREFUSED,
                event->status == 8 ? "rejected, reason 8: nobody listens on that port"
                                   : "rejected; the status is the reason");
}

void cm_expect(const struct lab_options* options, const struct rdma_cm_event* event,
               enum rdma_cm_event_type wanted) {
  cm_show_event(event);
  if (event->event == wanted && event->status == 0) return;
  if (event->event == RDMA_CM_EVENT_REJECTED) rejected(options, event);
  if (event->status < 0) {
    lab_not_there(options, rdma_event_str(event->event), -event->status, "");
  }
  lab_fail("expected %s, came %s with status %d", rdma_event_str(wanted),
           rdma_event_str(event->event), event->status);
}

const char* cm_state(struct ibv_qp* qp) {
  struct ibv_qp_attr now;
  struct ibv_qp_init_attr made;
  LAB_VERB(ibv_query_qp(qp, &now, IBV_QP_STATE, &made));
  return lab_state_name((int)now.qp_state);
}
