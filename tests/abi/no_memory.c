/* Set-up verbs without memory: every allocation of each call fails in turn. NULL or ENOMEM, no
 * crash, and afterwards everything can be done and undone. */

#include <pthread.h>
#include <stdbool.h>

#include "abi.h"

/* The program's own malloc comes before libc's, for the libraries too. Only what this thread
 * asks for between arm() and disarm() fails. */
extern void* __libc_malloc(size_t size);
extern void* __libc_calloc(size_t n, size_t size);
extern void* __libc_realloc(void* p, size_t size);
extern void* __libc_memalign(size_t alignment, size_t size);

static __thread int left = -1; /* allocations that still succeed; below 0: all */
static __thread bool struck;

static bool strikes(void) {
  if (left < 0) return false;
  if (left > 0) {
    --left;
    return false;
  }
  left = -1;
  struck = true;
  errno = ENOMEM;
  return true;
}

#pragma GCC visibility push(default)
void* malloc(size_t size) { return strikes() ? NULL : __libc_malloc(size); }
void* calloc(size_t n, size_t size) { return strikes() ? NULL : __libc_calloc(n, size); }
void* realloc(void* p, size_t size) { return strikes() ? NULL : __libc_realloc(p, size); }
void* aligned_alloc(size_t alignment, size_t size) {
  return strikes() ? NULL : __libc_memalign(alignment, size);
}

#pragma GCC visibility pop

static void arm(int n) {
  struck = false;
  left = n;
}
static bool disarm(void) {
  left = -1;
  return struck;
}

enum { MOST = 1000 }; /* no call allocates as often */

/* An object that is created under a shortage, then without, and destroyed each time. A call that
 * succeeds though an allocation failed has helped itself. */
#define EACH_ALLOCATION(type, create, destroy)        \
  do {                                                \
    bool once_struck = false;                         \
    int n = 0;                                        \
    for (bool again = true; again; ++n) {             \
      CHECK(n < MOST);                                \
      errno = 0;                                      \
      arm(n);                                         \
      type* object = (create); /* NOLINT */           \
      const int code = errno;                         \
      again = disarm();                               \
      once_struck = once_struck || again;             \
      if (object == NULL) {                           \
        CHECK(again);                                 \
        CHECK(code == ENOMEM);                        \
        object = (create);                            \
      }                                               \
      CHECK(object != NULL);                          \
      CHECK((destroy) == 0);                          \
    }                                                 \
    CHECK(once_struck);                               \
    printf("%-36s %d allocations\n", #create, n - 1); \
  } while (0)

static struct ibv_qp* create_qp(struct ibv_pd* pd, struct ibv_cq* cq) {
  struct ibv_qp_init_attr init = {
      .send_cq = cq,
      .recv_cq = cq,
      .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2},
      .qp_type = IBV_QPT_RC,
  };
  return ibv_create_qp(pd, &init);
}

static struct ibv_qp* in_state(struct ibv_qp* qp, int error) {
  if (error == 0) return qp;
  errno = error;
  return NULL;
}

/* RESET to INIT, as an "object" that ends with RESET. */
static struct ibv_qp* into_init(struct ibv_qp* qp) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
  return in_state(
      qp, ibv_modify_qp(qp, &attr,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}
static int to_reset(struct ibv_qp* qp) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
  return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

int main(void) {
  struct ibv_context* context = open_loopback();
  static char bytes[4096];
  struct ibv_pd* pd = ibv_alloc_pd(context); /* starts the NIC */
  struct ibv_cq* cq = ibv_create_cq(context, 16, NULL, NULL, 0);
  CHECK(pd != NULL && cq != NULL);

  EACH_ALLOCATION(struct ibv_pd, ibv_alloc_pd(context), ibv_dealloc_pd(object));
  EACH_ALLOCATION(struct ibv_cq, ibv_create_cq(context, 16, NULL, NULL, 0), ibv_destroy_cq(object));
  EACH_ALLOCATION(struct ibv_comp_channel, ibv_create_comp_channel(context),
                  ibv_destroy_comp_channel(object));
  EACH_ALLOCATION(struct ibv_mr, ibv_reg_mr(pd, bytes, sizeof bytes, IBV_ACCESS_LOCAL_WRITE),
                  ibv_dereg_mr(object));
  EACH_ALLOCATION(struct ibv_qp, create_qp(pd, cq), ibv_destroy_qp(object));

  struct ibv_qp* qp = create_qp(pd, cq);
  for (int n = 0; n < 8; ++n) {
    arm(n);
    struct ibv_qp* done = into_init(qp);
    const int code = errno;
    if (disarm() && done == NULL) CHECK(code == ENOMEM);
    if (done == NULL) CHECK(into_init(qp) == qp);
    CHECK(to_reset(qp) == 0);
  }
  CHECK(ibv_destroy_qp(qp) == 0);

  /* Nothing is left in use. */
  CHECK(ibv_destroy_cq(cq) == 0);
  CHECK(ibv_dealloc_pd(pd) == 0);
  CHECK(ibv_close_device(context) == 0);
  return 0;
}
