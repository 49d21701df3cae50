/* Posting and polling, with a word about each. */

#include "labs/verbs/verbs.h"

struct ibv_sge verbs_piece(const struct verbs_side* side, const uint8_t* at, size_t length) {
  return (struct ibv_sge){
      .addr = (uintptr_t)at, .length = (uint32_t)length, .lkey = side->mr->lkey};
}

void verbs_post_send(const struct verbs_side* side, struct ibv_send_wr* request) {
  verbs_show_send(side, request);
  struct ibv_send_wr* bad = NULL;
  LAB_VERB(ibv_post_send(side->qp, request, &bad));
}

void verbs_post_recv(const struct verbs_side* side, struct ibv_recv_wr* request) {
  verbs_show_recv(side, request);
  struct ibv_recv_wr* bad = NULL;
  LAB_VERB(ibv_post_recv(side->qp, request, &bad));
}

/* The struct is filled with rubbish first: what is read afterwards is what the device wrote. */
struct ibv_wc verbs_poll(const struct verbs_pair* pair, const struct verbs_side* side) {
  struct ibv_wc done;
  memset(&done, 0xee, sizeof done);
  int count = 0;
  while ((count = ibv_poll_cq(side->cq, 1, &done)) == 0) {
    lab_in_time(pair->options, "a completion");
  }
  lab_check(count == 1, "ibv_poll_cq gave %d", count);
  return done;
}

struct ibv_wc verbs_take(const struct verbs_pair* pair, const struct verbs_side* side) {
  const struct ibv_wc done = verbs_poll(pair, side);
  verbs_show_completion(side, &done);
  return done;
}

void verbs_expect(const struct verbs_side* side, const struct ibv_wc* done, uint64_t id,
                  enum ibv_wc_opcode opcode) {
  lab_check(done->status == IBV_WC_SUCCESS, "request %ju of %s: %s", (uintmax_t)done->wr_id,
            side->name, ibv_wc_status_str(done->status));
  lab_check(done->wr_id == id, "request %ju of %s is complete, expected %ju",
            (uintmax_t)done->wr_id, side->name, (uintmax_t)id);
  lab_check(done->opcode == opcode, "request %ju of %s has opcode %d, expected %d", (uintmax_t)id,
            side->name, done->opcode, opcode);
  lab_check(done->qp_num == side->qp->qp_num, "request %ju of %s is of qp %#x", (uintmax_t)id,
            side->name, done->qp_num);
}
