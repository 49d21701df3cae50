/* Verbs that came after rdma-core 44, by their versions and in layouts of our own: the library has
 * them whichever headers it was built with. */
#define _GNU_SOURCE /* dlvsym */
#include <dlfcn.h>
#include <unistd.h>

#include "abi.h"

struct mr_init {
  size_t length;
  int access;
  uint64_t comp_mask;
  uint64_t iova;
  void* addr;
  int fd;
  uint64_t fd_offset;
  void* dmah;
  void* buf;
};
enum { kIova = 1, kAddr = 2, kFd = 4, kFdOffset = 8, kDmah = 16, kBuf = 32, kUnknown = 64 };

typedef void* (*alloc_buf_function)(struct ibv_pd*, size_t, void** buf);
typedef void (*free_buf_function)(void* buf);
typedef int (*export_buf_function)(void* buf);
typedef struct ibv_mr* (*reg_buf_function)(struct ibv_pd*, void* buf, void*, size_t, int);
typedef struct ibv_mr* (*reg_ex_function)(struct ibv_pd*, struct mr_init*);
typedef int (*port_speed_function)(struct ibv_context*, uint32_t port, uint64_t* speed);
typedef int (*export_dm_function)(struct ibv_dm*);
typedef void* (*create_function)(struct ibv_context*, void* attr);
typedef int (*attach_function)(struct ibv_qp*, void* counter, void* attr);
typedef int (*caps_function)(struct ibv_context*, void* caps, size_t size);

static void* verb(const char* name, const char* version) {
  void* const found = dlvsym(RTLD_DEFAULT, name, version);
  if (found == NULL) fprintf(stderr, "%s@%s: %s\n", name, version, dlerror());
  CHECK(found != NULL);
  return found;
}

static void test_buf(struct ibv_context* context, struct ibv_pd* pd) {
  const alloc_buf_function alloc_buf = (alloc_buf_function)verb("ibv_alloc_buf", "IBVERBS_1.17");
  const free_buf_function free_buf = (free_buf_function)verb("ibv_free_buf", "IBVERBS_1.17");
  const reg_buf_function reg_buf = (reg_buf_function)verb("ibv_reg_buf_mr", "IBVERBS_1.17");
  const export_buf_function export_buf =
      (export_buf_function)verb("ibv_export_buf_dmabuf_fd", "IBVERBS_1.18");

  void* buf = NULL;
  const size_t kSize = 10000;
  char* const memory = alloc_buf(pd, kSize, &buf);
  CHECK(memory != NULL && buf != NULL);
  CHECK((uintptr_t)memory % (uintptr_t)sysconf(_SC_PAGESIZE) == 0);
  memset(memory, 1, kSize);

  struct ibv_mr* mr = reg_buf(pd, buf, memory, kSize, IBV_ACCESS_LOCAL_WRITE);
  CHECK(mr != NULL && mr->addr == memory && mr->length == kSize && mr->pd == pd);
  CHECK(ibv_dereg_mr(mr) == 0);
  mr = reg_buf(pd, buf, memory + kSize - 1, 1, 0);
  CHECK(mr != NULL && ibv_dereg_mr(mr) == 0);

  CHECK_NULL(EINVAL, reg_buf(pd, buf, memory - 1, 1, 0));
  CHECK_NULL(EINVAL, reg_buf(pd, buf, memory, kSize + 1, 0));
  CHECK_NULL(EINVAL, reg_buf(pd, buf, memory + 1, SIZE_MAX, 0));
  struct ibv_pd* other = ibv_alloc_pd(context);
  CHECK_NULL(EINVAL, reg_buf(other, buf, memory, kSize, 0));
  CHECK(ibv_dealloc_pd(other) == 0);
  errno = 0;
  CHECK(export_buf(buf) == -1 && errno == ENODATA);
  free_buf(buf);
  CHECK_NULL(ENOMEM, alloc_buf(pd, SIZE_MAX / 2, &buf));
}

static void test_reg_mr_ex(struct ibv_pd* pd) {
  const reg_ex_function reg = (reg_ex_function)verb("ibv_reg_mr_ex", "IBVERBS_1.15");
  static char memory[8192];
  struct mr_init init = {.length = 4096, .access = IBV_ACCESS_LOCAL_WRITE, .comp_mask = kAddr};
  init.addr = memory;
  struct ibv_mr* mr = reg(pd, &init);
  CHECK(mr != NULL && mr->addr == memory && mr->length == 4096);
  CHECK(ibv_dereg_mr(mr) == 0);
  init.comp_mask |= kIova;
  init.iova = 0x10000 + ((uintptr_t)memory & 0xfff);
  mr = reg(pd, &init);
  CHECK(mr != NULL && ibv_dereg_mr(mr) == 0);
  ++init.iova; /* another offset in its page */
  CHECK_NULL(EINVAL, reg(pd, &init));

  init.comp_mask = kAddr | kDmah;
  CHECK_NULL(EOPNOTSUPP, reg(pd, &init));
  init.comp_mask = kAddr | kUnknown;
  CHECK_NULL(EOPNOTSUPP, reg(pd, &init));
  init.comp_mask = kFd | kFdOffset | kIova; /* a DMA-buf */
  init.fd = -1;
  CHECK_NULL(EBADF, reg(pd, &init));
  init.comp_mask = kFd | kAddr;
  CHECK_NULL(EINVAL, reg(pd, &init));
  init.comp_mask = 0;
  CHECK_NULL(EINVAL, reg(pd, &init));
  init.comp_mask = kAddr | kBuf;
  init.buf = &init; /* nobody allocated it */
  CHECK_NULL(EINVAL, reg(pd, &init));
}

static void test_port_speed(struct ibv_context* context) {
  const port_speed_function query =
      (port_speed_function)verb("ibv_query_port_speed", "IBVERBS_1.16");
  uint64_t speed = 0;
  CHECK(query(context, 2, &speed) == EINVAL);
  CHECK(query(context, 1, &speed) == 0);
  struct ibv_port_attr port;
  CHECK(ibv_query_port(context, 1, &port) == 0);
  CHECK(port.active_width == 1 && port.active_speed == 8); /* one lane of 10 Gbit/s … */
  CHECK(speed == 100);                                     /* … is 100 times 100 Mbit/s */
}

/* What the device doesn't have is refused, in the way of each verb. */
static void test_refusals(struct ibv_context* context, struct ibv_pd* pd) {
  char attr[256] = {0};
  CHECK_NULL(EOPNOTSUPP, ((create_function)verb("ibv_alloc_dmah", "IBVERBS_1.15"))(context, attr));
  CHECK_NULL(EOPNOTSUPP,
             ((create_function)verb("ibv_create_comp_cntr", "IBVERBS_1.18"))(context, attr));
  CHECK(((caps_function)verb("_ibv_query_comp_cntr_caps", "IBVERBS_1.18"))(context, attr, 16) ==
        EOPNOTSUPP);

  struct ibv_cq* cq = ibv_create_cq(context, 1, NULL, NULL, 0);
  struct ibv_qp* qp = create_rc_qp(pd, cq);
  CHECK(((attach_function)verb("ibv_qp_attach_comp_cntr", "IBVERBS_1.18"))(qp, attr, attr) ==
        EOPNOTSUPP);
  CHECK(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0);

  struct ibv_alloc_dm_attr dm_attr = {.length = 64};
  struct ibv_dm* dm = ibv_alloc_dm(context, &dm_attr);
  CHECK(dm != NULL);
  errno = 0;
  CHECK(((export_dm_function)verb("ibv_dm_export_dmabuf_fd", "IBVERBS_1.16"))(dm) == -1);
  CHECK(errno == EOPNOTSUPP);
  CHECK(ibv_free_dm(dm) == 0);
}

int main(void) {
  struct ibv_context* context = open_loopback();
  struct ibv_pd* pd = ibv_alloc_pd(context);
  CHECK(pd != NULL);
  test_buf(context, pd);
  test_reg_mr_ex(pd);
  test_port_speed(context);
  test_refusals(context, pd);
  CHECK(ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0);
  return 0;
}
