/* Steps 4 to 8: one request of each kind, filled by hand. */

#include <arpa/inet.h>

#include "labs/verbs/verbs.h"

void verbs_send(struct verbs_pair* pair) {
  lab_say(" 4 SEND: the receiver says where the bytes go");
  const size_t size = pair->options->size, half = size / 2;
  lab_fill(verbs_out(&pair->left), size, 4);
  struct ibv_sge one = verbs_piece(&pair->right, verbs_in(&pair->right), size);
  struct ibv_recv_wr receive = {.wr_id = 40, .sg_list = &one, .num_sge = 1};
  verbs_post_recv(&pair->right, &receive); /* first: a SEND finds it or waits */
  /* Gathered from two pieces. Where the receiver cuts is its own affair. */
  struct ibv_sge two[] = {verbs_piece(&pair->left, verbs_out(&pair->left), half),
                          verbs_piece(&pair->left, verbs_out(&pair->left) + half, size - half)};
  struct ibv_send_wr send = {.wr_id = 41,
                             .sg_list = two,
                             .num_sge = 2,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED};
  verbs_post_send(&pair->left, &send);
  const struct ibv_wc sent = verbs_take(pair, &pair->left);
  verbs_expect(&pair->left, &sent, 41, IBV_WC_SEND);
  const struct ibv_wc received = verbs_take(pair, &pair->right);
  verbs_expect(&pair->right, &received, 40, IBV_WC_RECV);
  lab_check(received.byte_len == size, "byte_len is %u, sent were %zu", received.byte_len, size);
  lab_check((received.wc_flags & IBV_WC_WITH_IMM) == 0, "immediate data that nobody sent");
  lab_check_bytes(verbs_in(&pair->right), size, 4, "the SEND");
}

void verbs_send_with_imm(struct verbs_pair* pair) {
  lab_say(" 5 SEND with immediate data: 32 bits more, in network order, for the completion");
  const size_t size = pair->options->size;
  lab_fill(verbs_out(&pair->left), size, 5);
  struct ibv_sge place = verbs_piece(&pair->right, verbs_in(&pair->right), size);
  struct ibv_recv_wr receive = {.wr_id = 50, .sg_list = &place, .num_sge = 1};
  verbs_post_recv(&pair->right, &receive);
  struct ibv_sge bytes = verbs_piece(&pair->left, verbs_out(&pair->left), size);
  struct ibv_send_wr send = {.wr_id = 51,
                             .sg_list = &bytes,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND_WITH_IMM,
                             .send_flags = IBV_SEND_SIGNALED,
                             .imm_data = htonl(0x01020304)};
  verbs_post_send(&pair->left, &send);
  const struct ibv_wc sent = verbs_take(pair, &pair->left);
  verbs_expect(&pair->left, &sent, 51, IBV_WC_SEND);
  const struct ibv_wc received = verbs_take(pair, &pair->right);
  verbs_expect(&pair->right, &received, 50, IBV_WC_RECV);
  lab_check((received.wc_flags & IBV_WC_WITH_IMM) != 0, "no immediate data came");
  lab_check(ntohl(received.imm_data) == 0x01020304, "imm_data is %#x", ntohl(received.imm_data));
  lab_check_bytes(verbs_in(&pair->right), size, 5, "the SEND with immediate data");
}

void verbs_write(struct verbs_pair* pair) {
  lab_say(" 6 WRITE: the sender says where the bytes go. Only it gets a completion");
  const size_t size = pair->options->size;
  lab_fill(verbs_out(&pair->left), size, 6);
  struct ibv_sge bytes = verbs_piece(&pair->left, verbs_out(&pair->left), size);
  struct ibv_send_wr write = {
      .wr_id = 60,
      .sg_list = &bytes,
      .num_sge = 1,
      .opcode = IBV_WR_RDMA_WRITE,
      .send_flags = IBV_SEND_SIGNALED,
      .wr.rdma = {.remote_addr = (uintptr_t)verbs_in(&pair->right), .rkey = pair->right.mr->rkey}};
  verbs_post_send(&pair->left, &write);
  const struct ibv_wc done = verbs_take(pair, &pair->left);
  verbs_expect(&pair->left, &done, 60, IBV_WC_RDMA_WRITE);
  lab_check_bytes(verbs_in(&pair->right), size, 6, "the WRITE");
  struct ibv_wc none;
  lab_check(ibv_poll_cq(pair->right.cq, 1, &none) == 0, "the target has a completion");
  lab_say("   right ibv_poll_cq  gives 0: the bytes are there, and no completion");
}

void verbs_read(struct verbs_pair* pair) {
  lab_say(" 7 READ: the same fields, the other direction. The sg_list says where the bytes land");
  const size_t size = pair->options->size;
  lab_fill(verbs_out(&pair->right), size, 7);
  struct ibv_sge place = verbs_piece(&pair->left, verbs_in(&pair->left), size);
  struct ibv_send_wr read = {
      .wr_id = 70,
      .sg_list = &place,
      .num_sge = 1,
      .opcode = IBV_WR_RDMA_READ,
      .send_flags = IBV_SEND_SIGNALED,
      .wr.rdma = {.remote_addr = (uintptr_t)verbs_out(&pair->right), .rkey = pair->right.mr->rkey}};
  verbs_post_send(&pair->left, &read);
  const struct ibv_wc done = verbs_take(pair, &pair->left);
  verbs_expect(&pair->left, &done, 70, IBV_WC_RDMA_READ);
  lab_check(done.byte_len == size, "byte_len is %u, asked were %zu", done.byte_len, size);
  lab_check_bytes(verbs_in(&pair->left), size, 7, "the READ");
}

/* One atomic on the right side's word: what was there comes back to the left side's. */
static void atomic(struct verbs_pair* pair, uint64_t id, enum ibv_wr_opcode opcode,
                   uint64_t compare_add, uint64_t swap, uint64_t before, uint64_t after) {
  struct ibv_sge place =
      verbs_piece(&pair->left, (uint8_t*)verbs_word(&pair->left), sizeof(uint64_t));
  struct ibv_send_wr request = {.wr_id = id,
                                .sg_list = &place,
                                .num_sge = 1,
                                .opcode = opcode,
                                .send_flags = IBV_SEND_SIGNALED,
                                .wr.atomic = {.remote_addr = (uintptr_t)verbs_word(&pair->right),
                                              .rkey = pair->right.mr->rkey,
                                              .compare_add = compare_add,
                                              .swap = swap}};
  verbs_post_send(&pair->left, &request);
  const struct ibv_wc done = verbs_take(pair, &pair->left);
  const bool adds = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  verbs_expect(&pair->left, &done, id, adds ? IBV_WC_FETCH_ADD : IBV_WC_COMP_SWAP);
  lab_check(done.byte_len == sizeof(uint64_t), "byte_len is %u", done.byte_len);
  const uint64_t found = *verbs_word(&pair->left), now = *verbs_word(&pair->right);
  lab_check(found == before, "%ju came back, there was %ju", (uintmax_t)found, (uintmax_t)before);
  lab_check(now == after, "the word is %ju, expected %ju", (uintmax_t)now, (uintmax_t)after);
  lab_say("         the word was %ju, is %ju", (uintmax_t)found, (uintmax_t)now);
}

void verbs_atomics(struct verbs_pair* pair) {
  if (pair->device.atomic_cap == IBV_ATOMIC_NONE) {
    lab_say(" 8 atomics: left out, this device has none (atomic_cap is IBV_ATOMIC_NONE)");
    return;
  }
  lab_say(" 8 atomics: 8 bytes, read, changed and written in one piece");
  *verbs_word(&pair->right) = 100;
  atomic(pair, 80, IBV_WR_ATOMIC_FETCH_AND_ADD, 5, 0, 100, 105);
  atomic(pair, 81, IBV_WR_ATOMIC_CMP_AND_SWP, 105, 7, 105, 7);
  lab_say("   a comparison that fails is a success all the same: look at the word that came back");
  atomic(pair, 82, IBV_WR_ATOMIC_CMP_AND_SWP, 105, 9, 7, 7);
}
