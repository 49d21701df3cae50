/* What a device that nobody uses costs a program that polls its queue beside another one's.
 *
 *   idle_device MESSAGES
 *
 * A process writes MESSAGES times to itself and polls for each completion. Then it does so again,
 * and polls the queue of another device eight times for each look at the first. Its parent counts
 * the system calls of both (ptrace), and prints
 *
 *   N messages, A system calls each, B with an idle device, which was polled P times
 *
 * Exit status 77: this machine doesn't let a process trace its child. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../abi/abi.h"

enum { kIdlePolls = 8, kPhases = 2, kCannot = 77 };

struct counts {
  _Atomic int phase; /* that is counted; -1: none */
  long calls[kPhases];
  long idle_polls;
};
static struct counts* counts;

/* Another device than the loopback interface's, or that one once more. */
static struct ibv_cq* open_idle_queue(void) {
  int n = 0;
  struct ibv_device** list = ibv_get_device_list(&n);
  CHECK(list != NULL && n > 0);
  struct ibv_device* other = list[0];
  for (int i = 0; i < n; ++i) {
    if (strcmp(ibv_get_device_name(list[i]), "vb_lo") != 0) other = list[i];
  }
  struct ibv_context* context = ibv_open_device(other);
  ibv_free_device_list(list);
  CHECK(context != NULL);
  struct ibv_cq* cq = ibv_create_cq(context, 16, NULL, NULL, 0);
  CHECK(cq != NULL);
  return cq;
}

static void write_to_itself(struct pair* p, struct ibv_cq* idle, int messages, int idle_polls) {
  struct ibv_sge sge = sge_of(p, 0, 64);
  struct ibv_send_wr wr = {.sg_list = &sge,
                           .num_sge = 1,
                           .opcode = IBV_WR_RDMA_WRITE,
                           .send_flags = IBV_SEND_SIGNALED,
                           .wr.rdma = {(uintptr_t)p->memory + 4096, p->mr->rkey}};
  for (int i = 0; i < messages; ++i) {
    struct ibv_send_wr* bad = NULL;
    struct ibv_wc wc;
    CHECK(ibv_post_send(p->qp[0], &wr, &bad) == 0);
    int found = 0;
    do {
      for (int k = 0; k < idle_polls; ++k) CHECK(ibv_poll_cq(idle, 1, &wc) == 0);
      counts->idle_polls += idle_polls;
    } while ((found = ibv_poll_cq(p->cq, 1, &wc)) == 0);
    CHECK(found == 1 && wc.status == IBV_WC_SUCCESS);
  }
}

static int poll_two_devices(int messages) {
  struct pair p = connect_pair();
  struct ibv_cq* idle = open_idle_queue();
  write_to_itself(&p, idle, messages / 10, kIdlePolls);
  counts->idle_polls = 0;
  if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) return kCannot;
  CHECK(raise(SIGSTOP) == 0); /* the parent begins */
  for (int phase = 0; phase < kPhases; ++phase) {
    counts->phase = phase;
    write_to_itself(&p, idle, messages, phase * kIdlePolls);
  }
  counts->phase = -1;
  return 0;
}

/* The exit status of the child. */
static int count_calls(pid_t child) {
  int status = 0;
  bool inside = false; /* each call stops the child twice */
  CHECK(waitpid(child, &status, 0) == child);
  while (WIFSTOPPED(status)) {
    int signal = WSTOPSIG(status);
    if (signal == SIGSTOP) {
      CHECK(ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) == 0);
      signal = 0;
    } else if (signal == (SIGTRAP | 0x80)) {
      inside = !inside;
      if (inside && counts->phase >= 0) ++counts->calls[counts->phase];
      signal = 0;
    }
    CHECK(ptrace(PTRACE_SYSCALL, child, NULL, (void*)(intptr_t)signal) == 0);
    CHECK(waitpid(child, &status, 0) == child);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char** argv) {
  const int messages = argc == 2 ? atoi(argv[1]) : 0;
  if (messages < 10) return fprintf(stderr, "usage: idle_device MESSAGES\n"), 2;
  counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(counts != MAP_FAILED);
  counts->phase = -1;
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) _exit(poll_two_devices(messages));
  const int status = count_calls(child);
  if (status == kCannot) puts("a process can't trace its child here");
  if (status != 0) return status;
  printf(
      "%d messages, %.2f system calls each, %.2f with an idle device, which was polled %ld times\n",
      messages, (double)counts->calls[0] / messages, (double)counts->calls[1] / messages,
      counts->idle_polls);
  return 0;
}
