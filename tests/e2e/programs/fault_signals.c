/* Masks, dispositions and other signals, while memory is taken away under traffic.
 *
 *   fault_signals KIND ROUNDS
 *
 * Prints what held. Exit status 0: all of it. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "fault_own.h"
#include "thefts.h"

static void never(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)info, (void)context;
  static const char kWords[] = "a fault of a copy came to the program\n";
  (void)!write(STDERR_FILENO, kWords, sizeof kWords - 1);
  _exit(3);
}

static void watch_nothing_comes(void) {
  const struct sigaction mine = action_with_info(never, 0);
  CHECK(sigaction(SIGSEGV, &mine, NULL) == 0 && sigaction(SIGBUS, &mine, NULL) == 0);
}

/* ---- no thread of the program takes any signal: copies are system calls */
static void blocked(int rounds) {
  sigset_t all;
  sigfillset(&all);
  CHECK(pthread_sigmask(SIG_BLOCK, &all, NULL) == 0);
  steal(open_thefts(), rounds);
}

/* ---- the mask changes all the time, by each function that there is */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void masks(int rounds) {
  struct thefts* t = open_thefts();
  watch_nothing_comes();
  sigset_t both, before;
  sigemptyset(&both);
  sigaddset(&both, SIGSEGV);
  sigaddset(&both, SIGBUS);
  const int old_both = (1 << (SIGSEGV - 1)) | (1 << (SIGBUS - 1));
  for (int i = 0; i < 10 * rounds; ++i) {
    steal_once(t, &kThefts[i % kTheftCount]);
    switch (i % 5) {
      case 0:
        CHECK(pthread_sigmask(SIG_BLOCK, &both, &before) == 0);
        break;
      case 1:
        CHECK(sigprocmask(SIG_BLOCK, &both, &before) == 0);
        break;
      case 2:
        CHECK(sighold(SIGSEGV) == 0 && sighold(SIGBUS) == 0);
        break;
      case 3:
        sigblock(old_both);
        break;
      case 4:
        sigsetmask(old_both);
        break;
    }
    sigset_t now;
    CHECK(sigprocmask(SIG_BLOCK, NULL, &now) == 0 && sigismember(&now, SIGSEGV) == 1);
    steal_once(t, &kThefts[(i + 1) % kTheftCount]);
    CHECK(sigrelse(SIGSEGV) == 0 && sigrelse(SIGBUS) == 0);
  }
}

/* ---- coroutines, one of which has all signals blocked */
static ucontext_t open_minded, closed;
static struct thefts* shared_thefts;
static void in_closed(void) {
  for (int i = 0;; ++i) {
    steal_once(shared_thefts, &kThefts[i % kTheftCount]);
    CHECK(swapcontext(&closed, &open_minded) == 0);
  }
}
static void contexts(int rounds) {
  static char stack[1 << 18];
  shared_thefts = open_thefts();
  watch_nothing_comes();
  CHECK(getcontext(&closed) == 0);
  closed.uc_stack.ss_sp = stack;
  closed.uc_stack.ss_size = sizeof stack;
  sigfillset(&closed.uc_sigmask);
  makecontext(&closed, in_closed, 0);
  for (int i = 0; i < 10 * rounds; ++i) {
    steal_once(shared_thefts, &kThefts[(3 * i) % kTheftCount]);
    CHECK(swapcontext(&open_minded, &closed) == 0);
  }
}

/* ---- the signals are ignored, also by what exec() makes of the process */
static void ignored(int rounds) {
  struct thefts* t = open_thefts();
  for (int i = 0; i < rounds; ++i) {
    steal(t, 1);
    CHECK(signal(SIGSEGV, SIG_IGN) != SIG_ERR && signal(SIGBUS, SIG_IGN) != SIG_ERR);
    CHECK(kill(getpid(), SIGSEGV) == 0 && kill(getpid(), SIGBUS) == 0);
    steal(t, 1);
    CHECK(signal(SIGBUS, SIG_DFL) == SIG_IGN);
    CHECK(signal(SIGSEGV, SIG_DFL) == SIG_IGN);
  }
  CHECK(signal(SIGSEGV, SIG_IGN) == SIG_DFL);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) execl("/proc/self/exe", "fault_signals", "is-ignored", "1", (char*)NULL);
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}
static void is_ignored(int rounds) {
  (void)rounds;
  struct sigaction now;
  CHECK(sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_handler == SIG_IGN);
  CHECK(sigaction(SIGBUS, NULL, &now) == 0 && now.sa_handler == SIG_DFL);
}

/* ---- a raw system call replaces the handlers: noticed within a millisecond */
struct raw_action { /* as the kernel has it on x86-64 and arm64 */
  void (*handler)(int, siginfo_t*, void*);
  unsigned long flags;
  void (*restorer)(void);
  unsigned long mask;
};
static void raw(int rounds) {
  struct thefts* t = open_thefts();
  for (int i = 0; i < rounds; ++i) {
    struct raw_action mine = {.handler = never, .flags = SA_SIGINFO}, before[2];
    CHECK(syscall(SYS_rt_sigaction, SIGSEGV, &mine, &before[0], 8) == 0);
    CHECK(syscall(SYS_rt_sigaction, SIGBUS, &mine, &before[1], 8) == 0);
    usleep(2000); /* the millisecond */
    steal(t, 1);
    CHECK(syscall(SYS_rt_sigaction, SIGSEGV, &before[0], NULL, 8) == 0);
    CHECK(syscall(SYS_rt_sigaction, SIGBUS, &before[1], NULL, 8) == 0);
    steal(t, 1);
  }
  watch_nothing_comes();
  steal(t, rounds);
}

/* ---- a timer of 10 kHz, whose handler faults on its own now and then */
static volatile long ticks;
static void tick(int signal) {
  (void)signal;
  if (++ticks % 64 == 0) {
    mprotect(own_page, kOwnPage, PROT_NONE);
    *(volatile char*)own_page = 1;
  }
}
static void timer(int rounds) {
  make_own_page();
  const struct sigaction mine = action_with_info(handle_with_info, 0);
  CHECK(sigaction(SIGSEGV, &mine, NULL) == 0);
  struct sigaction alarm = {.sa_handler = tick, .sa_flags = SA_RESTART};
  CHECK(sigaction(SIGALRM, &alarm, NULL) == 0);
  struct thefts* t = open_thefts();
  struct sigevent to_this_thread = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM};
  to_this_thread._sigev_un._tid = gettid(); /* it makes the copies */
  timer_t made;
  CHECK(timer_create(CLOCK_MONOTONIC, &to_this_thread, &made) == 0);
  const struct itimerspec often = {{0, 100000}, {0, 100000}};
  CHECK(timer_settime(made, 0, &often, NULL) == 0);
  for (int i = 0; i < rounds || ticks < 1000; ++i) steal(t, 1);
  CHECK(timer_delete(made) == 0);
  CHECK(own_seen.calls == ticks / 64);
}

/* ---- sent signals wait for the program where all its threads block them */
static void sent(int rounds) {
  sigset_t all;
  sigfillset(&all);
  CHECK(pthread_sigmask(SIG_BLOCK, &all, NULL) == 0);
  struct thefts* t = open_thefts();
  for (int i = 0; i < rounds; ++i) {
    const int signal = i % 2 == 0 ? SIGSEGV : SIGBUS;
    CHECK(kill(getpid(), signal) == 0);
    steal(t, 1);
    CHECK(sigwaitinfo(&all, NULL) == signal);
    steal(t, 1);
  }
}

/* ---- faults that leave their handler with its mask */
static jmp_buf way_out;
static void leave(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)context;
  look(info);
  longjmp(way_out, 1);
}
static void mask_stays(int rounds) {
  struct thefts* t = open_thefts();
  make_own_page();
  const struct sigaction mine = action_with_info(leave, 0);
  CHECK(sigaction(SIGSEGV, &mine, NULL) == 0);
  for (int i = 0; i < rounds; ++i) {
    if (_setjmp(way_out) == 0) *(volatile char*)own_page = 1;
    sigset_t now;
    CHECK(own_seen.calls == i + 1);
    steal(t, 1); /* SIGSEGV is blocked now */
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &now) == 0 && sigismember(&now, SIGSEGV) == 1);
    sigemptyset(&now);
    CHECK(pthread_sigmask(SIG_SETMASK, &now, NULL) == 0);
    steal(t, 1);
  }
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void (*run)(int rounds);
  } kKinds[] = {
      {"blocked", blocked},       {"masks", masks}, {"contexts", contexts}, {"ignored", ignored},
      {"is-ignored", is_ignored}, {"raw", raw},     {"timer", timer},       {"sent", sent},
      {"mask-stays", mask_stays},
  };
  for (size_t i = 0; argc == 3 && i < sizeof kKinds / sizeof *kKinds; ++i) {
    if (strcmp(argv[1], kKinds[i].name) != 0) continue;
    kKinds[i].run(atoi(argv[2]));
    return printf("%s held\n", argv[1]), 0;
  }
  return fprintf(stderr, "fault_signals KIND ROUNDS\n"), 2;
}
