/* Raw packets from several threads at once: one sends, one receives, one makes and destroys rules,
 * one makes and destroys queue pairs. What arrives is whole; ThreadSanitizer looks at the rest. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>

#include "raw.h"

enum { kSends = 3000, kWanted = 500, kDepth = 8, kSlot = 256 };

struct player {
  struct card card;
  struct ibv_qp* qp;
};

static atomic_int stop;

static struct player open_player(void) {
  struct player p = {.card = open_card()};
  p.qp = create_raw(&p.card);
  CHECK(p.qp != NULL);
  raw_to_rts(p.qp);
  return p;
}

static void* send_frames(void* argument) {
  const struct player* p = argument;
  write_frame(&p->card, kTo, 0);
  for (int i = 0; i < kSends && !atomic_load(&stop); ++i) {
    memset(p->card.memory + 14, i, kFrame - 14);
    struct ibv_sge sge = {(uintptr_t)p->card.memory, kFrame, p->card.mr->lkey};
    CHECK(send_and_wait(
              p->card.cq, p->qp,
              (struct ibv_send_wr){.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1}) == 0);
  }
  atomic_store(&stop, 1);
  return NULL;
}

static void post_slot(const struct player* p, uint64_t slot) {
  struct ibv_sge sge = {(uintptr_t)p->card.memory + slot * kSlot, kSlot, p->card.mr->lkey};
  struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1};
  struct ibv_recv_wr* bad = NULL;
  CHECK(ibv_post_recv(p->qp, &wr, &bad) == 0);
}

/* Returns how many came. */
static void* receive_frames(void* argument) {
  const struct player* p = argument;
  uintptr_t got = 0;
  for (uint64_t slot = 0; slot < kDepth; ++slot) post_slot(p, slot);
  while (!atomic_load(&stop)) {
    struct ibv_wc wc;
    const int n = ibv_poll_cq(p->card.cq, 1, &wc);
    CHECK(n >= 0);
    if (n == 0) continue;
    CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == kFrame && wc.wr_id < kDepth);
    const uint8_t* frame = p->card.memory + wc.wr_id * kSlot;
    CHECK(memcmp(frame, kTo, 6) == 0);
    for (int i = 15; i < kFrame; ++i) CHECK(frame[i] == frame[14]);
    post_slot(p, wc.wr_id);
    if (++got == kWanted) atomic_store(&stop, 1);
  }
  return (void*)got;
}

static void* change_rules(void* argument) {
  const struct player* p = argument;
  while (!atomic_load(&stop)) {
    struct eth_flow f = flow_to(kTo);
    f.attr.priority = 1;
    struct ibv_flow* flow = ibv_create_flow(p->qp, &f.attr);
    CHECK(flow != NULL);
    CHECK(ibv_destroy_flow(flow) == 0);
  }
  return NULL;
}

/* Nothing is posted to them: what is for them is dropped. */
static void* change_queue_pairs(void* argument) {
  const struct player* p = argument;
  while (!atomic_load(&stop)) {
    struct ibv_qp* qp = create_raw(&p->card);
    CHECK(qp != NULL);
    raw_to_rts(qp);
    struct ibv_flow_attr all = {.type = IBV_FLOW_ATTR_SNIFFER, .size = sizeof all, .port = 1};
    struct ibv_flow* flow = ibv_create_flow(qp, &all);
    CHECK(flow != NULL);
    CHECK(ibv_destroy_flow(flow) == 0);
    CHECK(ibv_destroy_qp(qp) == 0);
  }
  return NULL;
}

int main(void) {
  if (!enter_network()) {
    printf("no network namespace here: %s\n", strerror(errno));
    return kSkipped;
  }
  struct player sender = open_player();
  struct player receiver = open_player();
  struct eth_flow f = flow_to(kTo);
  struct ibv_flow* flow = ibv_create_flow(receiver.qp, &f.attr);
  CHECK(flow != NULL);
  void* (*const roles[])(void*) = {receive_frames, send_frames, change_rules, change_queue_pairs};
  struct player* const players[] = {&receiver, &sender, &receiver, &sender};
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) {
    CHECK(pthread_create(&threads[i], NULL, roles[i], players[i]) == 0);
  }
  void* got = NULL;
  for (int i = 3; i >= 0; --i) CHECK(pthread_join(threads[i], &got) == 0);
  CHECK(got != NULL); /* the receiver's, which was joined last */
  CHECK(ibv_destroy_flow(flow) == 0);
  CHECK(ibv_close_device(sender.card.context) == 0);
  CHECK(ibv_close_device(receiver.card.context) == 0);
  free(sender.card.memory);
  free(receiver.card.memory);
  return 0;
}
