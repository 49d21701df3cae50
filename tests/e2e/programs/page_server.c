/* Registered memory whose pages a thread of the program serves: userfaultfd.
 *
 *   page_server ROUNDS user            faults in user mode only, which needs no privileges
 *   page_server ROUNDS all             faults of the kernel, too
 *   page_server ROUNDS user by-kernel  copied by system calls: SIGSEGV is ignored
 *
 * In each round, all pages are missing again. Every operation must get the bytes that the thread
 * serves. Prints how many pages it served. Exit status 0: it held; 77: no userfaultfd here. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../abi/abi.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

enum { kPage = 4096, kPages = 16, kSize = kPages * kPage, kLacks = 77 };
enum {
  kAll = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
         IBV_ACCESS_REMOTE_ATOMIC
};

static char* area;
static _Atomic int served;

static uint8_t served_byte(size_t at) { return (uint8_t)(at / kPage * 16 + at % 13); }

static void* serve(void* handle) {
  const int fd = *(const int*)handle;
  struct uffd_msg message;
  while (read(fd, &message, sizeof message) == sizeof message) {
    if (message.event != UFFD_EVENT_PAGEFAULT) continue;
    static char page[kPage];
    const uint64_t start = message.arg.pagefault.address & ~(uint64_t)(kPage - 1);
    for (size_t i = 0; i < kPage; ++i) page[i] = (char)served_byte(start - (uintptr_t)area + i);
    if (served % 50 == 0) usleep(2000); /* it may come from far away */
    struct uffdio_copy copy = {.dst = start, .src = (uintptr_t)page, .len = kPage};
    ++served; /* first: the program goes on at once */
    CHECK(ioctl(fd, UFFDIO_COPY, &copy) == 0 || errno == EEXIST);
  }
  return NULL;
}

static int lacks(const char* what) {
  printf("%s: %s\n", what, strerror(errno));
  return kLacks;
}

static int open_userfaultfd(bool user_only) {
  return (int)syscall(SYS_userfaultfd, O_CLOEXEC | (user_only ? UFFD_USER_MODE_ONLY : 0));
}

static void check_served(const char* bytes, size_t from, size_t size) {
  for (size_t i = 0; i < size; ++i) CHECK((uint8_t)bytes[i] == served_byte(from + i));
}

static enum ibv_wc_status move(struct pair* p, enum ibv_wr_opcode opcode, struct ibv_sge local,
                               const struct ibv_sge* remote) {
  const struct ibv_send_wr wr = {.wr_id = 1,
                                 .sg_list = &local,
                                 .num_sge = 1,
                                 .opcode = opcode,
                                 .wr.rdma = {remote->addr, remote->lkey}};
  return send_and_wait(p->cq, p->qp[0], wr);
}

static void all_operations(struct pair* p, const struct ibv_mr* mr) {
  enum { kBytes = 3 * kPage, kFrom = 1000 };
  const struct ibv_sge plain = sge_of(p, 0, kBytes);
  const struct ibv_sge out = {(uintptr_t)area + kFrom, kBytes, mr->lkey};
  const struct ibv_sge read = {(uintptr_t)area + 4 * kPage + kFrom, kBytes, mr->lkey};
  const struct ibv_sge in = {(uintptr_t)area + 8 * kPage + kFrom, kBytes, mr->lkey};
  CHECK(madvise(area, kSize, MADV_DONTNEED) == 0);
  CHECK(move(p, IBV_WR_RDMA_WRITE, out, &plain) == IBV_WC_SUCCESS);
  check_served(p->memory, kFrom, kBytes);
  CHECK(move(p, IBV_WR_RDMA_READ, plain, &read) == IBV_WC_SUCCESS);
  check_served(p->memory, 4 * kPage + kFrom, kBytes);
  memset(p->memory, 0xa5, kBytes);
  CHECK(move(p, IBV_WR_RDMA_WRITE, plain, &in) == IBV_WC_SUCCESS);
  const size_t first = 8 * kPage + kFrom;
  CHECK((uint8_t)area[first] == 0xa5 && (uint8_t)area[first + kBytes - 1] == 0xa5);
  check_served(area + first - 1, first - 1, 1);
  check_served(area + first + kBytes, first + kBytes, 1);

  uint64_t before, expected;
  char* const word = area + 13 * kPage;
  struct ibv_sge result = sge_of(p, 0, 8);
  const struct ibv_send_wr add = {.wr_id = 2,
                                  .sg_list = &result,
                                  .num_sge = 1,
                                  .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
                                  .wr.atomic = {(uintptr_t)word, 1, 0, mr->rkey}};
  CHECK(send_and_wait(p->cq, p->qp[0], add) == IBV_WC_SUCCESS);
  memcpy(&before, p->memory, 8);
  for (size_t i = 0; i < 8; ++i) ((uint8_t*)&expected)[i] = served_byte(13 * kPage + i);
  CHECK(before == expected && *(uint64_t*)word == expected + 1);
}

int main(int argc, char** argv) {
  const bool by_kernel = argc == 4 && strcmp(argv[3], "by-kernel") == 0;
  const bool user_only = argc >= 3 && strcmp(argv[2], "user") == 0;
  if (argc < 3 || argc > 4 || (argc == 4 && !by_kernel)) {
    return fprintf(stderr, "page_server ROUNDS user|all [by-kernel]\n"), 2;
  }
  if (sysconf(_SC_PAGESIZE) != kPage) return printf("pages are not of 4096 bytes\n"), kLacks;
  int fd = open_userfaultfd(user_only);
  if (fd < 0) return lacks("userfaultfd");
  struct uffdio_api api = {.api = UFFD_API};
  if (ioctl(fd, UFFDIO_API, &api) != 0) return lacks("UFFDIO_API");
  area = mmap(NULL, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(area != MAP_FAILED);
  struct uffdio_register range = {.range = {(uintptr_t)area, kSize},
                                  .mode = UFFDIO_REGISTER_MODE_MISSING};
  CHECK(ioctl(fd, UFFDIO_REGISTER, &range) == 0);
  pthread_t server;
  CHECK(pthread_create(&server, NULL, serve, &fd) == 0);
  if (by_kernel) CHECK(signal(SIGSEGV, SIG_IGN) == SIG_DFL);

  struct pair p = connect_pair();
  volatile unsigned access = kAll;
  /* Registration has the kernel bring the pages, which it must be allowed to. */
  struct ibv_mr* present = ibv_reg_mr(p.pd, area, kSize, access);
  CHECK(user_only ? present == NULL && errno == EFAULT : present != NULL && served == kPages);
  if (present != NULL) CHECK(ibv_dereg_mr(present) == 0);
  access |= IBV_ACCESS_ON_DEMAND;
  struct ibv_mr* mr = ibv_reg_mr(p.pd, area, kSize, access);
  CHECK(mr != NULL);
  if (by_kernel && user_only) {
    const struct ibv_sge out = {(uintptr_t)area, 64, mr->lkey};
    const struct ibv_sge plain = sge_of(&p, 0, 64);
    CHECK(move(&p, IBV_WR_RDMA_WRITE, out, &plain) == IBV_WC_LOC_PROT_ERR && served == 0);
  } else {
    for (int i = atoi(argv[1]); i > 0; --i) all_operations(&p, mr);
  }
  CHECK(ibv_dereg_mr(mr) == 0);
  destroy_pair(&p);
  printf("%d pages served\n", served);
  return 0;
}
