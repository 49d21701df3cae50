/* In which order the bytes of a WRITE appear: two processes on 127.0.0.1.
 *
 *   last_byte ROUNDS SIZE OFFSET             WRITEs of SIZE bytes into a ring of slots, which
 * begins OFFSET bytes behind the memory last_byte ROUNDS SIZE OFFSET by-kernel   copied by system
 * calls: SIGSEGV is ignored
 *
 * A thread watches the last byte of the next slot, and when it is there, all others must be.
 * Another thread polls, so that copies are made while the first one looks.
 *
 * Prints what it saw. Exit status 0: it held. */
#include <pthread.h>
#include <sched.h>

#include "two_ends.h"

enum { kMaxRing = 16 << 20, kMinSlots = 4, kImpatience = 4096 /* looks in vain */ };

struct ring {
  size_t size;   /* of a slot */
  size_t offset; /* of the first one */
  uint64_t slots;
};

static struct ring ring_of(size_t size, size_t offset) {
  const uint64_t fit = kMaxRing / size;
  return (struct ring){size, offset, fit < kMinSlots ? kMinSlots : fit > kDepth ? kDepth : fit};
}

static size_t offset_of(struct ring ring, uint64_t round) {
  return ring.offset + round % ring.slots * ring.size;
}

/* Another one each time that a slot is written. */
static uint8_t mark_of(struct ring ring, uint64_t round) {
  return (uint8_t)(round / ring.slots % 251 + 1);
}

static void* poll_until_over(void* end) {
  struct end* e = end;
  while (!shared->over) CHECK(poll_some(e) == 0);
  return NULL;
}

static void wait_for(const volatile uint8_t* byte, uint8_t mark) {
  for (unsigned looks = 1; *byte != mark; ++looks) {
    if (looks % kImpatience != 0) continue;
    CHECK(time(NULL) < limit);
    sched_yield(); /* the copier may need this processor */
  }
  atomic_thread_fence(memory_order_acquire);
}

static void watch(uint64_t rounds, struct ring ring) {
  struct end e = open_end(0, ring.offset + ring.size * ring.slots);
  pthread_t poller;
  CHECK(pthread_create(&poller, NULL, poll_until_over, &e) == 0);
  const size_t stride = ring.size <= 4096 ? 1 : 61;
  for (uint64_t round = 0; round < rounds; ++round) {
    const volatile uint8_t* const slot = e.memory + offset_of(ring, round);
    const uint8_t mark = mark_of(ring, round);
    wait_for(&slot[ring.size - 1], mark);
    /* Downwards, and at once: what is late comes soon. */
    for (size_t at = ring.size; at > stride; at -= stride) {
      const size_t i = at - stride;
      if (slot[i] == mark) continue;
      fprintf(stderr, "message %llu: byte %zu of %zu came after the last one\n",
              (unsigned long long)round, i, ring.size);
      exit(1);
    }
    shared->answered = round + 1;
  }
  shared->over = true;
  pthread_join(poller, NULL);
  printf("%llu messages of %zu bytes, the last byte always last\n", (unsigned long long)rounds,
         ring.size);
}

static void write_marks(uint64_t rounds, struct ring ring) {
  struct end e = open_end(1, ring.offset + ring.size * ring.slots);
  uint64_t completed = 0;
  for (uint64_t round = 0; round < rounds; ++round) {
    while (round >= completed + ring.slots || round >= shared->answered + ring.slots) {
      completed += (uint64_t)poll_some(&e);
    }
    memset(e.memory + offset_of(ring, round), mark_of(ring, round), ring.size);
    post_one(&e, IBV_WR_RDMA_WRITE, offset_of(ring, round), (uint32_t)ring.size);
  }
  while (completed < rounds) completed += (uint64_t)poll_some(&e);
}

int main(int argc, char** argv) {
  const bool by_kernel = argc == 5 && strcmp(argv[4], "by-kernel") == 0;
  if (argc != 4 && !by_kernel) {
    return fprintf(stderr, "last_byte ROUNDS SIZE OFFSET [by-kernel]\n"), 2;
  }
  if (by_kernel) CHECK(signal(SIGSEGV, SIG_IGN) == SIG_DFL);
  const uint64_t rounds = strtoull(argv[1], NULL, 10);
  const size_t size = strtoull(argv[2], NULL, 10);
  CHECK(rounds > 0 && size > 0);
  const struct ring ring = ring_of(size, strtoull(argv[3], NULL, 10));
  const pid_t writer = fork_ends();
  if (writer == 0) {
    write_marks(rounds, ring);
    return 0;
  }
  watch(rounds, ring);
  return join_ends(writer);
}
