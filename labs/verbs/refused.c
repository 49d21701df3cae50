/* Steps 9 to 11: a request that isn't taken, and one that is taken and fails. */

#include <stdlib.h>

#include "labs/verbs/verbs.h"

enum { kChain = 4, kRefused = 2, kWord = sizeof(uint64_t) };

/* Which words of the right side have been written: the n-th request writes n + 1 to the n-th. */
static void check_written(const struct verbs_pair* pair, int count) {
  for (int i = 0; i < kChain; ++i) {
    uint64_t word = 0;
    memcpy(&word, verbs_in(&pair->right) + i * kWord, kWord);
    const uint64_t wanted = i < count ? (uint64_t)i + 1 : 0;
    lab_check(word == wanted, "word %d is %ju, expected %ju", i, (uintmax_t)word,
              (uintmax_t)wanted);
  }
}

/* More pieces than the queue pair has room for. */
static struct ibv_sge* too_many_pieces(const struct verbs_side* side, unsigned granted) {
  struct ibv_sge* list = calloc(granted + 1, sizeof *list);
  lab_check(list != NULL, "calloc: %s", strerror(errno));
  for (unsigned i = 0; i <= granted; ++i) list[i] = verbs_piece(side, verbs_out(side), 1);
  return list;
}

void verbs_refused_in_the_middle(struct verbs_pair* pair) {
  lab_say(" 9 a chain of four WRITEs; the third has one piece more than was granted");
  struct verbs_side* left = &pair->left;
  memset(verbs_in(&pair->right), 0, kChain * kWord);
  struct ibv_sge pieces[kChain];
  struct ibv_send_wr chain[kChain];
  for (int i = 0; i < kChain; ++i) {
    const uint64_t value = (uint64_t)i + 1;
    memcpy(verbs_out(left) + i * kWord, &value, kWord);
    pieces[i] = verbs_piece(left, verbs_out(left) + i * kWord, kWord);
    chain[i] = (struct ibv_send_wr){
        .wr_id = 90 + (uint64_t)i,
        .next = i + 1 < kChain ? &chain[i + 1] : NULL,
        .sg_list = &pieces[i],
        .num_sge = 1,
        .opcode = IBV_WR_RDMA_WRITE,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {.remote_addr = (uintptr_t)(verbs_in(&pair->right) + i * kWord),
                    .rkey = pair->right.mr->rkey}};
  }
  struct ibv_sge* many = too_many_pieces(left, left->cap.max_send_sge);
  chain[kRefused].sg_list = many;
  chain[kRefused].num_sge = (int)left->cap.max_send_sge + 1;

  lab_say(
      "   left  ibv_send_wr  .wr_id=90 to 93, .next: each the one behind it; of 92, .num_sge=%d",
      chain[kRefused].num_sge);

  struct ibv_send_wr* bad = NULL;
  const int code = ibv_post_send(left->qp, chain, &bad);
  lab_check(code != 0, "a request of %d pieces was taken", chain[kRefused].num_sge);
  lab_check(bad == &chain[kRefused], "bad_wr points to request %ju", (uintmax_t)bad->wr_id);
  lab_say("   left  ibv_post_send gives %d (%s), bad_wr->wr_id=%ju", code, strerror(abs(code)),
          (uintmax_t)bad->wr_id);
  for (uint64_t id = 90; id < 90 + kRefused; ++id) {
    const struct ibv_wc done = verbs_take(pair, left);
    verbs_expect(left, &done, id, IBV_WC_RDMA_WRITE);
  }
  check_written(pair, kRefused);
  lab_say("   90 and 91 were executed; 92 and 93 weren't posted, and never complete");

  /* Mend it, and post from there on. */
  bad->sg_list = &pieces[kRefused];
  bad->num_sge = 1;
  LAB_VERB(ibv_post_send(left->qp, bad, &bad));
  for (uint64_t id = 90 + kRefused; id < 90 + kChain; ++id) {
    const struct ibv_wc done = verbs_poll(pair, left);
    verbs_expect(left, &done, id, IBV_WC_RDMA_WRITE);
  }
  check_written(pair, kChain);
  lab_say("   mended and posted from bad_wr on: now 92 and 93 are executed, too");
  free(many);
}

void verbs_refused_receive(struct verbs_pair* pair) {
  lab_say("10 a chain of two receives; the second has one piece more than was granted");
  struct verbs_side* left = &pair->left;
  struct ibv_sge place = verbs_piece(left, verbs_in(left), pair->options->size);
  struct ibv_sge* many = too_many_pieces(left, left->cap.max_recv_sge);
  struct ibv_recv_wr second = {
      .wr_id = 101, .sg_list = many, .num_sge = (int)left->cap.max_recv_sge + 1};
  struct ibv_recv_wr first = {.wr_id = 100, .next = &second, .sg_list = &place, .num_sge = 1};
  struct ibv_recv_wr* bad = NULL;
  const int code = ibv_post_recv(left->qp, &first, &bad);
  lab_check(code != 0, "a receive of %d pieces was taken", second.num_sge);
  lab_check(bad == &second, "bad_wr points to receive %ju", (uintmax_t)bad->wr_id);
  lab_say("   left  ibv_post_recv gives %d (%s), bad_wr->wr_id=%ju; 100 is posted", code,
          strerror(abs(code)), (uintmax_t)bad->wr_id);
  free(many);
}

void verbs_failure(struct verbs_pair* pair) {
  lab_say("11 two SENDs; the first reads one byte past its region. The post is taken, and fails");
  struct verbs_side* left = &pair->left;
  struct ibv_sge past = verbs_piece(left, left->memory, left->length + 1);
  struct ibv_sge good = verbs_piece(left, left->memory, 1);
  struct ibv_send_wr behind = {.wr_id = 111, .sg_list = &good, .num_sge = 1, .opcode = IBV_WR_SEND};
  struct ibv_send_wr send = {
      .wr_id = 110, .next = &behind, .sg_list = &past, .num_sge = 1, .opcode = IBV_WR_SEND};
  verbs_post_send(left, &send);
  verbs_show_send(left, &behind); /* went with it */
  /* Neither is signalled: failures complete all the same. Receive 100 is flushed with them. */
  const struct ibv_wc failed = verbs_take(pair, left);
  lab_check(failed.wr_id == 110 && failed.status == IBV_WC_LOC_PROT_ERR,
            "request %ju ended with %s", (uintmax_t)failed.wr_id, ibv_wc_status_str(failed.status));
  bool send_flushed = false, receive_flushed = false;
  while (!send_flushed || !receive_flushed) {
    const struct ibv_wc flushed = verbs_take(pair, left);
    lab_check(flushed.status == IBV_WC_WR_FLUSH_ERR, "request %ju ended with %s",
              (uintmax_t)flushed.wr_id, ibv_wc_status_str(flushed.status));
    lab_check(flushed.wr_id == 111 || flushed.wr_id == 100, "request %ju was flushed",
              (uintmax_t)flushed.wr_id);
    send_flushed = send_flushed || flushed.wr_id == 111;
    receive_flushed = receive_flushed || flushed.wr_id == 100;
  }
}
