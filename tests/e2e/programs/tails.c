/* Requests that nobody will hear of: the last ones of a row are unsignaled, and then the program
 * does nothing more.
 *
 *   tails ROUNDS
 *
 * In each round the requester posts a signaled WRITE and unsignaled ones behind it, and sleeps
 * until the target has seen the last one in its memory. So it doesn't poll: the device works by
 * itself. Every few rounds it polls, and finds the completions of the signaled ones, in order. */
#include "two_ends.h"

enum { kTail = 15, kSlot = 1021, kPollEvery = 4 };

static void watch(uint64_t rounds) {
  struct end e = open_end(0, (kTail + 1) * kSlot);
  for (uint64_t round = 0; round < rounds; ++round) {
    const uint8_t mark = (uint8_t)(round % 255 + 1);
    const volatile uint8_t* const last = e.memory + (kTail + 1) * kSlot - 1;
    while (*last != mark) pause_or_give_up();
    atomic_thread_fence(memory_order_acquire);
    for (size_t i = 0; i < (kTail + 1) * kSlot; ++i) CHECK(e.memory[i] == mark);
    shared->answered = round + 1;
  }
  printf("%llu tails of %d, all there\n", (unsigned long long)rounds, kTail);
}

static void post_row(struct end* e, uint64_t round) {
  for (int i = 0; i <= kTail; ++i) {
    struct ibv_sge sge = {(uintptr_t)e->memory + (size_t)i * kSlot, kSlot, e->mr->lkey};
    struct ibv_send_wr* bad = NULL;
    struct ibv_send_wr wr = {.wr_id = round,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = i == 0 ? IBV_SEND_SIGNALED : 0,
                             .wr.rdma = {shared->address + (uint64_t)i * kSlot, shared->rkey}};
    CHECK(ibv_post_send(e->qp, &wr, &bad) == 0);
  }
}

static void write_rows(uint64_t rounds) {
  struct end e = open_end(1, (kTail + 1) * kSlot);
  uint64_t polled = 0;
  for (uint64_t round = 0; round < rounds; ++round) {
    memset(e.memory, (int)(round % 255 + 1), (kTail + 1) * kSlot);
    post_row(&e, round);
    while (shared->answered <= round) pause_or_give_up();
    if ((round + 1) % kPollEvery != 0) continue;
    struct ibv_wc wc;
    while (polled <= round) {
      const int n = ibv_poll_cq(e.cq, 1, &wc);
      CHECK(n >= 0 && time(NULL) < limit);
      if (n == 0) continue;
      CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == polled);
      ++polled;
    }
    CHECK(ibv_poll_cq(e.cq, 1, &wc) == 0); /* none of an unsignaled one */
  }
}

int main(int argc, char** argv) {
  if (argc != 2) return fprintf(stderr, "tails ROUNDS\n"), 2;
  const uint64_t rounds = strtoull(argv[1], NULL, 10) / kPollEvery * kPollEvery;
  CHECK(rounds > 0);
  const pid_t writer = fork_ends();
  if (writer == 0) {
    write_rows(rounds);
    return 0;
  }
  watch(rounds);
  return join_ends(writer);
}
