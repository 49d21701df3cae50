/* Two datagram queue pairs that are ready before their device gets an address, and speak through it
 * afterwards.
 *
 *   late_address DEVICE ADDRESS
 *
 * Prints "ready", waits until ADDRESS (IPv4) is a GID of the device, sends a datagram from it to
 * it, and prints "received from ADDRESS". Exit status 0: as it should be.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "must.h"

enum { kGrh = 40, kQkey = 0x1234, kSize = 64 };

static struct ibv_context* open_device(const char* name) {
  int count;
  struct ibv_device** list = ibv_get_device_list(&count);
  for (int i = 0; list != NULL && i < count; ++i) {
    if (strcmp(ibv_get_device_name(list[i]), name) == 0) return ibv_open_device(list[i]);
  }
  return NULL;
}

static struct ibv_qp* ready_pair(struct ibv_pd* pd, struct ibv_cq* cq) {
  struct ibv_qp_init_attr init = {
      .send_cq = cq,
      .recv_cq = cq,
      .qp_type = IBV_QPT_UD,
      .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
  struct ibv_qp* qp = ibv_create_qp(pd, &init);
  MUST(qp != NULL);
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = kQkey};
  MUST(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
  attr.qp_state = IBV_QPS_RTR;
  MUST(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
  attr.qp_state = IBV_QPS_RTS;
  MUST(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
  return qp;
}

/* -1: not there. */
static int index_of(struct ibv_context* context, const union ibv_gid* wanted) {
  struct ibv_port_attr port;
  MUST(ibv_query_port(context, 1, &port) == 0);
  for (int i = 0; i < port.gid_tbl_len; ++i) {
    union ibv_gid gid;
    if (ibv_query_gid(context, 1, i, &gid) == 0 && memcmp(&gid, wanted, sizeof gid) == 0) return i;
  }
  return -1;
}

static void wait_for_completions(struct ibv_cq* cq, int count) {
  const time_t end = time(NULL) + 10;
  while (count > 0) {
    struct ibv_wc wc;
    const int n = ibv_poll_cq(cq, 1, &wc);
    MUST(n >= 0 && time(NULL) < end);
    if (n == 0) continue;
    MUST(wc.status == IBV_WC_SUCCESS);
    --count;
  }
}

int main(int argc, char** argv) {
  MUST(argc == 3);
  union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};
  MUST(inet_pton(AF_INET, argv[2], gid.raw + 12) == 1);
  struct ibv_context* context = open_device(argv[1]);
  MUST(context != NULL);
  struct ibv_pd* pd = ibv_alloc_pd(context);
  struct ibv_cq* cq = ibv_create_cq(context, 8, NULL, NULL, 0);
  static char buffer[kGrh + kSize], message[kSize] = "at an address that came later";
  struct ibv_mr* in = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
  struct ibv_mr* out = ibv_reg_mr(pd, message, sizeof message, 0);
  MUST(pd != NULL && cq != NULL && in != NULL && out != NULL);
  struct ibv_qp *sender = ready_pair(pd, cq), *receiver = ready_pair(pd, cq);
  MUST(index_of(context, &gid) < 0);
  printf("ready\n");
  fflush(stdout);

  int index = -1;
  while (index < 0) {
    struct ibv_async_event event;
    MUST(ibv_get_async_event(context, &event) == 0);
    ibv_ack_async_event(&event);
    index = index_of(context, &gid);
  }
  struct ibv_sge to = {(uintptr_t)buffer, sizeof buffer, in->lkey};
  struct ibv_recv_wr receive = {.sg_list = &to, .num_sge = 1}, *bad_receive;
  MUST(ibv_post_recv(receiver, &receive, &bad_receive) == 0);
  struct ibv_ah_attr way = {.is_global = 1,
                            .port_num = 1,
                            .grh = {.dgid = gid, .sgid_index = (uint8_t)index, .hop_limit = 64}};
  struct ibv_ah* ah = ibv_create_ah(pd, &way);
  MUST(ah != NULL);
  struct ibv_sge from = {(uintptr_t)message, sizeof message, out->lkey};
  struct ibv_send_wr send = {.sg_list = &from,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.ud = {ah, receiver->qp_num, kQkey}},
                     *bad_send;
  MUST(ibv_post_send(sender, &send, &bad_send) == 0);
  wait_for_completions(cq, 2);
  MUST(strcmp(buffer + kGrh, message) == 0);
  char source[INET_ADDRSTRLEN];
  MUST(inet_ntop(AF_INET, buffer + 20 + 12, source, sizeof source) != NULL);
  printf("received from %s\n", source);
  return 0;
}
