/* Queue pairs opened and closed, COUNT in each of ROUNDS; those of a round are all open at once.
 * Each goes to INIT, as programs do. Prints the growth of the resident memory from before to after.
 *
 *   many_queue_pairs ROUNDS COUNT */
#include <unistd.h>

#include "../../abi/abi.h"

static long resident_kib(void) {
  long pages = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL && fscanf(file, "%ld %ld", &pages, &resident) == 2);
  fclose(file);
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

int main(int argc, char** argv) {
  if (argc != 3) return fprintf(stderr, "many_queue_pairs ROUNDS COUNT\n"), 2;
  const int rounds = atoi(argv[1]), count = atoi(argv[2]);
  struct ibv_context* context = open_loopback();
  struct ibv_pd* pd = ibv_alloc_pd(context);
  struct ibv_cq* cq = ibv_create_cq(context, 16, NULL, NULL, 0);
  struct ibv_qp** qps = calloc((size_t)count, sizeof *qps);
  CHECK(pd != NULL && cq != NULL && qps != NULL);
  const long before = resident_kib();
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < count; ++i) {
      qps[i] = create_rc_qp(pd, cq);
      to_init(qps[i]);
    }
    for (int i = 0; i < count; ++i) CHECK(ibv_destroy_qp(qps[i]) == 0);
  }
  printf("%d queue pairs at once, %d times: growth %ld KiB\n", count, rounds,
         resident_kib() - before);
  CHECK(ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0);
  free(qps);
  return 0;
}
