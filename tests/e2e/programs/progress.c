/* Who makes progress: two processes on 127.0.0.1.
 *
 *   progress compute ROUNDS   READs from a process that only computes: they are served.
 *   progress quiet ROUNDS     the same of a process that has just polled for 3 ms, and then stops.
 *
 * Prints what it saw, and the median of a READ in microseconds. Exit status 0: it held. */
#include "two_ends.h"

enum { kPolling = 3000 /* microseconds */ };

static double microseconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static void be_read(uint64_t rounds, bool polls_first) {
  struct end e = open_end(0, 4096);
  struct ibv_wc wc;
  volatile uint64_t work = 0;
  for (uint64_t round = 1; round <= rounds; ++round) {
    const double begin = microseconds();
    while (polls_first && microseconds() < begin + kPolling) {
      CHECK(ibv_poll_cq(e.cq, 1, &wc) == 0);
    }
    shared->asked = round;
    while (shared->answered < round) { /* and no call of the device's */
      if (++work % (1u << 20) == 0) CHECK(time(NULL) < limit);
    }
  }
}

static int by_size(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void read_it(uint64_t rounds) {
  struct end e = open_end(1, 4096);
  double* took = calloc(rounds, sizeof *took);
  CHECK(took != NULL);
  for (uint64_t round = 1; round <= rounds; ++round) {
    while (shared->asked < round) CHECK(time(NULL) < limit);
    const double begin = microseconds();
    post_one(&e, IBV_WR_RDMA_READ, 0, 64);
    while (poll_some(&e) == 0) continue;
    took[round - 1] = microseconds() - begin;
    shared->answered = round;
  }
  qsort(took, rounds, sizeof *took, by_size);
  printf("%llu READs served, the median took %.1f us\n", (unsigned long long)rounds,
         took[rounds / 2]);
}

int main(int argc, char** argv) {
  if (argc != 3) return fprintf(stderr, "progress compute|quiet ROUNDS\n"), 2;
  const bool quiet = strcmp(argv[1], "quiet") == 0;
  const uint64_t rounds = strtoull(argv[2], NULL, 10);
  CHECK(rounds > 0);
  const pid_t reader = fork_ends();
  if (reader == 0) {
    read_it(rounds);
    return 0;
  }
  be_read(rounds, quiet);
  return join_ends(reader);
}
