// Runs a program under a seccomp filter: refuse_call memfd_create|seal -- PROGRAM …
//
// memfd_create: the call fails with EPERM. seal: adding F_SEAL_FUTURE_WRITE fails with EINVAL, as
// before Linux 5.1.

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
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

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const int seal = strcmp(argv[1], "seal") == 0;
  const struct sock_fprog program =
      seal ? (struct sock_fprog){sizeof without_seal / sizeof *without_seal, without_seal}
           : (struct sock_fprog){sizeof without_memfd / sizeof *without_memfd, without_memfd};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    perror("refuse_call");
    return 1;
  }
  execvp(argv[3], argv + 3);
  perror(argv[3]);
  return 127;
}
