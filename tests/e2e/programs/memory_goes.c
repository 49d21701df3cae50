/* Memory that is registered, in use, and taken away: the requests that need it end with an error,
 * whichever end they need it at, and the program lives.
 *
 *   memory_goes ROUNDS
 *
 * In each round a fresh pair of queue pairs has WRITEs and READs under way when another thread
 * takes the memory of one end, by munmap(), mprotect() or ftruncate(). */
#include "thefts.h"

int main(int argc, char** argv) {
  if (argc != 2) return fprintf(stderr, "memory_goes ROUNDS\n"), 2;
  const int rounds = atoi(argv[1]);
  struct thefts* t = open_thefts();
  steal(t, rounds);
  close_thefts(t);
  printf("%d thefts under traffic, each seen\n", rounds * kTheftCount);
  return 0;
}
