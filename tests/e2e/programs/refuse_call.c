// Runs a program under a seccomp filter: refuse_call memfd_create|seal|rcvbuf|sndbuf -- PROGRAM …
//
// memfd_create: the call fails with EPERM. seal: adding F_SEAL_FUTURE_WRITE fails with EINVAL, as
// before Linux 5.1. rcvbuf, sndbuf: setting SO_RCVBUF or SO_SNDBUF changes nothing.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define FAIL(error) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define UNLESS(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (skip))
#define UNLESS_BIT(value, skip) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (value), 0, (skip))

static struct sock_filter without_memfd[] = {
    LOAD(nr),
    UNLESS(SYS_memfd_create, 1),
    FAIL(EPERM),
    ALLOW,
};
static struct sock_filter without_seal[] = {
    LOAD(nr),      UNLESS(SYS_fcntl, 5), LOAD(args[1]), UNLESS(F_ADD_SEALS, 3),
    LOAD(args[2]), UNLESS_BIT(0x10, 1),  FAIL(EINVAL),  ALLOW,
};

#define WITHOUT_BUFFER(option)                                                                \
  {                                                                                           \
    LOAD(nr), UNLESS(SYS_setsockopt, 5), LOAD(args[1]), UNLESS(SOL_SOCKET, 3), LOAD(args[2]), \
        UNLESS((option), 1), FAIL(0), ALLOW,                                                  \
  }
static struct sock_filter without_receive_buffer[] = WITHOUT_BUFFER(SO_RCVBUF);
static struct sock_filter without_send_buffer[] = WITHOUT_BUFFER(SO_SNDBUF);

#define PROGRAM(filter) \
  (struct sock_fprog) { sizeof(filter) / sizeof *(filter), (filter) }

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  struct sock_fprog program = PROGRAM(without_memfd);
  if (strcmp(argv[1], "seal") == 0) program = PROGRAM(without_seal);
  if (strcmp(argv[1], "rcvbuf") == 0) program = PROGRAM(without_receive_buffer);
  if (strcmp(argv[1], "sndbuf") == 0) program = PROGRAM(without_send_buffer);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    perror("refuse_call");
    return 1;
  }
  execvp(argv[3], argv + 3);
  perror(argv[3]);
  return 127;
}
