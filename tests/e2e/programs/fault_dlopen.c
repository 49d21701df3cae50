/* The library is opened by dlopen(), not preloaded: libc's own functions stand before its hooks, so
 * no handler of ours may be counted on.
 *
 *   fault_dlopen LIBIBVERBS THEFTS ROUNDS   THEFTS: thefts_library.c */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void never(int signal) {
  (void)signal;
  static const char kWords[] = "a fault of a copy came to the program\n";
  (void)!write(STDERR_FILENO, kWords, sizeof kWords - 1);
  _exit(3);
}

int main(int argc, char** argv) {
  if (argc != 4) return fprintf(stderr, "fault_dlopen LIBIBVERBS THEFTS ROUNDS\n"), 2;
  int (*run_thefts)(int) = NULL;
  if (dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) != NULL) {
    void* const thefts = dlopen(argv[2], RTLD_NOW);
    if (thefts != NULL) *(void**)&run_thefts = dlsym(thefts, "run_thefts");
  }
  if (run_thefts == NULL) return fprintf(stderr, "%s\n", dlerror()), 1;
  const int rounds = atoi(argv[3]);
  int thefts = 0;
  for (int i = 0; i < rounds; ++i) {
    signal(SIGSEGV, i % 2 == 0 ? never : SIG_DFL);
    signal(SIGBUS, i % 2 == 0 ? never : SIG_DFL);
    thefts += run_thefts(1);
  }
  printf("%d thefts under traffic\n", thefts);
  return 0;
}
