/* GNU libsigsegv, which tells faults of a program's own pages from stack overflows and from others.
 *
 *   fault_libsigsegv ROUNDS */
#define _GNU_SOURCE
#include <setjmp.h>
#include <sigsegv.h>

#include "fault_own.h"
#include "thefts.h"

static volatile int handled, overflows;
static sigjmp_buf way_out;

static int on_fault(void* address, int serious) {
  (void)serious;
  if ((char*)address < own_page || (char*)address >= own_page + kOwnPage) return 0;
  ++handled;
  mend();
  return 1;
}

static void leave(void* a, void* b, void* c) {
  (void)a, (void)b, (void)c;
  siglongjmp(way_out, 1);
}

static void on_overflow(int emergency, stackoverflow_context_t context) {
  (void)context;
  ++overflows;
  if (emergency) _exit(4);
  sigsegv_leave_handler(leave, NULL, NULL, NULL);
}

static volatile int bottom = 1 << 30;
static __attribute__((noinline)) int sink(int depth) {
  volatile char room[4096];
  room[depth % 4096] = (char)depth;
  return depth < bottom ? sink(depth + 1) + room[0] : 0;
}

int main(int argc, char** argv) {
  if (argc != 2) return fprintf(stderr, "fault_libsigsegv ROUNDS\n"), 2;
  const int rounds = atoi(argv[1]);
  make_own_page();
  CHECK(sigsegv_install_handler(on_fault) == 0);
  struct thefts* t = open_thefts();
  CHECK(stackoverflow_install_handler(on_overflow, own_stack, sizeof own_stack) == 0);
  for (int i = 0; i < rounds; ++i) {
    steal(t, 1);
    CHECK(mprotect(own_page, kOwnPage, PROT_NONE) == 0);
    *(volatile char*)(own_page + i % kOwnPage) = 1;
    CHECK(handled == i + 1);
    if (i % 10 != 0) continue;
    if (sigsetjmp(way_out, 1) == 0) sink(0);
    CHECK(overflows == i / 10 + 1);
  }
  printf("%d thefts under traffic beside %d faults and %d overflows\n", rounds * kTheftCount,
         handled, overflows);
  return 0;
}
