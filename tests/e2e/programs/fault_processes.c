/* Other processes, and the end of this one, while memory is taken away under traffic.
 *
 *   fault_processes children ROUNDS   fork(), vfork() and posix_spawn() beside the traffic;
 * children have faults and traffic of their own fault_processes crash|sent|abort  the program ends
 * itself, in the middle of the traffic fault_processes waits             traffic until a signal
 * ends it */
#define _GNU_SOURCE
#include <spawn.h>
#include <sys/wait.h>

#include "fault_own.h"
#include "thefts.h"

extern char** environ;

static _Atomic bool over;

static void* traffic(void* rounds) {
  struct thefts* t = open_thefts();
  steal(t, *(const int*)rounds);
  over = true;
  return NULL;
}

static int status_of(pid_t child) {
  int status = -1;
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  return status;
}

/* In a child: the parent's handler is there, for its own faults alone. */
static void child_lives(int round) {
  own_seen.calls = 0;
  fault_once(round);
  if (round % 8 == 0) steal(open_thefts(), 1);
  fault_once(round);
  _exit(0);
}

static void forks(int round) {
  const pid_t child = fork();
  if (child == 0) child_lives(round);
  CHECK(status_of(child) == 0);
  const pid_t dies = fork();
  if (dies == 0) {
    signal(SIGSEGV, SIG_DFL);
    CHECK(mprotect(own_page, kOwnPage, PROT_NONE) == 0);
    own_page[0] = 1;
    _exit(0);
  }
  const int status = status_of(dies);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

static void vforks(void) {
  static char* const kTrue[] = {"true", NULL};
  const pid_t child = vfork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL); /* of the child alone */
    execv("/bin/true", kTrue);
    _exit(127);
  }
  CHECK(status_of(child) == 0);
  posix_spawnattr_t how;
  sigset_t all;
  sigfillset(&all);
  CHECK(posix_spawnattr_init(&how) == 0 && posix_spawnattr_setsigdefault(&how, &all) == 0);
  CHECK(posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGDEF) == 0);
  pid_t spawned = 0;
  CHECK(posix_spawn(&spawned, "/bin/true", NULL, &how, kTrue, environ) == 0);
  CHECK(status_of(spawned) == 0 && posix_spawnattr_destroy(&how) == 0);
}

static void children(int rounds) {
  make_own_page();
  const struct sigaction mine = action_with_info(handle_with_info, 0);
  CHECK(sigaction(SIGSEGV, &mine, NULL) == 0);
  pthread_t other;
  CHECK(pthread_create(&other, NULL, traffic, &rounds) == 0);
  for (int i = 0; !over || i < 20; ++i) {
    forks(i);
    vforks();
    struct sigaction now;
    CHECK(sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_sigaction == handle_with_info);
    fault_once(i);
  }
  CHECK(pthread_join(other, NULL) == 0);
}

static void in_the_middle(void) {
  static const int kForEver = 1000000;
  pthread_t other;
  struct thefts* t = open_thefts();
  steal(t, 2);
  CHECK(pthread_create(&other, NULL, traffic, (void*)&kForEver) == 0);
}

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "";
  if (argc == 3 && strcmp(what, "children") == 0) {
    children(atoi(argv[2]));
    return printf("children held\n"), 0;
  }
  if (argc != 2) return fprintf(stderr, "fault_processes children ROUNDS | crash | …\n"), 2;
  in_the_middle();
  make_own_page();
  printf("page %p\n", (void*)own_page);
  fflush(stdout);
  if (strcmp(what, "crash") == 0) own_page[7] = 1;
  if (strcmp(what, "sent") == 0) kill(getpid(), SIGSEGV);
  if (strcmp(what, "abort") == 0) abort();
  for (;;) pause();
}
