/* Faults of the program's own: a page that nobody may touch, and a handler that looks at how it was
 * called. It lets the page be touched, so that the instruction succeeds when it is tried again. */
#pragma once

#define _GNU_SOURCE
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../abi/abi.h"

enum { kOwnPage = 4096, kAltStack = 1 << 16 };

/* What the handler saw. Of one thread: the one that faults. */
struct seen {
  volatile int calls;
  void* volatile address; /* si_addr */
  volatile bool segv_blocked, usr1_blocked, on_alt_stack;
};

static struct seen own_seen;
static char* own_page;
static char own_stack[kAltStack];

static inline void look(const siginfo_t* info) {
  sigset_t mask;
  sigprocmask(SIG_BLOCK, NULL, &mask);
  const char here = 0;
  ++own_seen.calls;
  own_seen.address = info != NULL ? info->si_addr : NULL;
  own_seen.segv_blocked = sigismember(&mask, SIGSEGV) == 1;
  own_seen.usr1_blocked = sigismember(&mask, SIGUSR1) == 1;
  own_seen.on_alt_stack = &here >= own_stack && &here < own_stack + kAltStack;
}

static inline void mend(void) { mprotect(own_page, kOwnPage, PROT_READ | PROT_WRITE); }

static inline void handle_with_info(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)context;
  look(info);
  mend();
}

static inline void handle(int signal) {
  (void)signal;
  look(NULL);
  mend();
}

static inline void make_own_page(void) {
  own_page = mmap(NULL, kOwnPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(own_page != MAP_FAILED);
}

/* One fault, at another byte each time. */
static inline void fault_once(int round) {
  volatile char* const at = own_page + round % kOwnPage;
  const int calls = own_seen.calls;
  CHECK(mprotect(own_page, kOwnPage, PROT_NONE) == 0);
  *at = (char)round;
  CHECK(own_seen.calls == calls + 1 && *at == (char)round);
}

static inline struct sigaction action_with_info(void (*handler)(int, siginfo_t*, void*),
                                                int flags) {
  struct sigaction a = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
  sigaddset(&a.sa_mask, SIGUSR1);
  return a;
}
