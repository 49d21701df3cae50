/* Programs that handle SIGSEGV themselves, in each way that there is, while memory is taken away
 * under traffic: their faults come to their handlers as ever, and no other fault does.
 *
 *   fault_handlers KIND before|after ROUNDS     the handler is installed before|after the device
 *                                               is opened
 *
 * One thread has the traffic, this one the faults. */
#define _GNU_SOURCE
#include <setjmp.h>

#include "fault_own.h"
#include "thefts.h"

static sigjmp_buf way_out;

static void leave(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)context;
  look(info);
  siglongjmp(way_out, 1);
}

/* ---- kinds: how a handler is installed, and one fault with what must be seen of it */

static void set_action(void (*handler)(int, siginfo_t*, void*), int flags) {
  const struct sigaction wanted = action_with_info(handler, flags);
  struct sigaction seen;
  CHECK(sigaction(SIGSEGV, &wanted, NULL) == 0);
  CHECK(sigaction(SIGSEGV, NULL, &seen) == 0);
  CHECK(seen.sa_sigaction == handler && (seen.sa_flags & flags) == flags);
  CHECK(sigismember(&seen.sa_mask, SIGUSR1) == 1 && sigismember(&seen.sa_mask, SIGUSR2) == 0);
}

static void expect_seen(int round, bool segv_blocked, bool usr1_blocked) {
  CHECK(own_seen.address == own_page + round % kOwnPage);
  CHECK(own_seen.segv_blocked == segv_blocked && own_seen.usr1_blocked == usr1_blocked);
}

static void set_plain(void) { set_action(handle_with_info, 0); }
static void fault_plain(int round) {
  fault_once(round);
  expect_seen(round, true, true);
}

static void set_nodefer(void) { set_action(handle_with_info, SA_NODEFER); }
static void fault_nodefer(int round) {
  fault_once(round);
  expect_seen(round, false, true);
}

static void set_resethand(void) { set_action(handle_with_info, (int)SA_RESETHAND); }
static void fault_resethand(int round) {
  fault_once(round);
  expect_seen(round, true, true);
  struct sigaction now;
  CHECK(sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_handler == SIG_DFL);
  set_resethand();
}

static void set_onstack(void) {
  const stack_t stack = {.ss_sp = own_stack, .ss_size = kAltStack};
  CHECK(sigaltstack(&stack, NULL) == 0);
  set_action(leave, SA_ONSTACK);
}
static volatile int deepest = 1 << 30; /* never reached */
static __attribute__((noinline)) int sink(int depth) {
  volatile char room[4096];
  room[depth % 4096] = (char)depth;
  return depth < deepest ? sink(depth + 1) + room[0] : 0;
}
static void fault_onstack(int round) {
  if (sigsetjmp(way_out, 1) == 0) {
    if (round % 16 == 0) sink(0); /* the handler has no other stack */
    *(volatile char*)own_page = 1;
  }
  CHECK(own_seen.calls == round + 1 && own_seen.on_alt_stack);
}

static void set_longjmp(void) { set_action(leave, 0); }
static void fault_longjmp(int round) {
  if (sigsetjmp(way_out, 1) == 0) own_page[round % kOwnPage] = 1;
  CHECK(own_seen.calls == round + 1 && !own_seen.on_alt_stack);
  expect_seen(round, true, true);
}

static void set_signal(void) {
  CHECK(signal(SIGSEGV, handle) != SIG_ERR);
  CHECK(signal(SIGSEGV, handle) == handle);
}
static void fault_signal(int round) {
  fault_once(round);
  CHECK(own_seen.segv_blocked);
}

static void set_sysv(void) { CHECK(sysv_signal(SIGSEGV, handle) != SIG_ERR); }
static void fault_sysv(int round) {
  fault_once(round);
  CHECK(!own_seen.segv_blocked);
  CHECK(sysv_signal(SIGSEGV, handle) == SIG_DFL);
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void set_sigset(void) { CHECK(sigset(SIGSEGV, handle) != SIG_ERR); }
static void fault_sigset(int round) {
  fault_once(round);
  CHECK(own_seen.segv_blocked);
  if (round % 100 != 0) return;
  CHECK(sigset(SIGSEGV, SIG_HOLD) == handle);
  CHECK(sigset(SIGSEGV, handle) == SIG_HOLD);
  CHECK(sigset(SIGSEGV, handle) == handle);
}

/* A library's handler, in front of the program's for a while. */
static struct sigaction behind;
static volatile int in_front;
static void stand_in_front(int signal, siginfo_t* info, void* context) {
  ++in_front;
  behind.sa_sigaction(signal, info, context);
}
static void fault_chained(int round) {
  const struct sigaction mine = action_with_info(stand_in_front, SA_RESTART);
  CHECK(sigaction(SIGSEGV, &mine, &behind) == 0 && behind.sa_sigaction == handle_with_info);
  fault_plain(round);
  CHECK(in_front == round + 1);
  struct sigaction old;
  CHECK(sigaction(SIGSEGV, &behind, &old) == 0 && old.sa_sigaction == stand_in_front);
  CHECK((old.sa_flags & SA_RESTART) != 0);
}

static const struct kind {
  const char* name;
  void (*install)(void);
  void (*fault)(int round);
} kKinds[] = {
    {"sigaction", set_plain, fault_plain},         {"nodefer", set_nodefer, fault_nodefer},
    {"resethand", set_resethand, fault_resethand}, {"onstack", set_onstack, fault_onstack},
    {"siglongjmp", set_longjmp, fault_longjmp},    {"signal", set_signal, fault_signal},
    {"sysv_signal", set_sysv, fault_sysv},         {"sigset", set_sigset, fault_sigset},
    {"chained", set_plain, fault_chained},
};

static _Atomic bool over;

static void* traffic(void* rounds) {
  struct thefts* t = open_thefts();
  over = false;
  steal(t, *(const int*)rounds);
  close_thefts(t);
  over = true;
  return NULL;
}

int main(int argc, char** argv) {
  const struct kind* kind = NULL;
  for (size_t i = 0; argc == 4 && i < sizeof kKinds / sizeof *kKinds; ++i) {
    if (strcmp(argv[1], kKinds[i].name) == 0) kind = &kKinds[i];
  }
  if (kind == NULL) return fprintf(stderr, "fault_handlers KIND before|after ROUNDS\n"), 2;
  const int rounds = atoi(argv[3]);
  make_own_page();
  struct ibv_context* const opened = strcmp(argv[2], "after") == 0 ? open_loopback() : NULL;
  kind->install();
  pthread_t other;
  CHECK(pthread_create(&other, NULL, traffic, (void*)&rounds) == 0);
  int faults = 0;
  for (; !over || faults < 1000; ++faults) kind->fault(faults);
  CHECK(pthread_join(other, NULL) == 0);
  CHECK(own_seen.calls == faults);
  if (opened != NULL) CHECK(ibv_close_device(opened) == 0);
  printf("%d thefts under traffic beside %d faults of its own\n", rounds * kTheftCount, faults);
  return 0;
}
