/* FLUSH by ibv_wr_flush(), in layouts and numbers of our own: headers before rdma-core 45 don't
 * know it. */
#include "abi.h"

enum {
  kAccessFlushGlobal = 1 << 8,
  kAccessFlushPersistent = 1 << 9,
  kWithFlush = 1 << 11,
  kWcFlush = 8,
  kGlobal = 1,
  kPersistent = 2,
  kRange = 0,
  kRegion = 1,
};

typedef void (*flush_function)(struct ibv_qp_ex* qp, uint32_t rkey, uint64_t address, size_t length,
                               uint8_t type, uint8_t level);

static flush_function function_of(struct ibv_qp_ex* qp) {
  flush_function function;
  memcpy(&function, (char*)qp + offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof function,
         sizeof function); /* it stands behind wr_atomic_write */
  return function;
}

static void flush(struct ibv_qp_ex* qp, uint32_t rkey, uint64_t address, size_t length,
                  uint8_t type, uint8_t level) {
  ibv_wr_start(qp);
  qp->wr_id = 7;
  qp->wr_flags = IBV_SEND_SIGNALED;
  function_of(qp)(qp, rkey, address, length, type, level);
}

static struct ibv_qp* create_with(struct pair* p, enum ibv_qp_type type, uint64_t operations) {
  struct ibv_qp_init_attr_ex init = {
      .send_cq = p->cq,
      .recv_cq = p->cq,
      .cap = {.max_send_wr = 4, .max_send_sge = 1},
      .qp_type = type,
      .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
      .pd = p->pd,
      .send_ops_flags = operations,
  };
  return ibv_create_qp_ex(p->context, &init);
}

static struct ibv_qp* create(struct pair* p, enum ibv_qp_type type) {
  return create_with(p, type, IBV_QP_EX_WITH_RDMA_WRITE | kWithFlush);
}

/* librpma asks by the functions whether a queue pair has such operations. */
static void test_functions(struct pair* p) {
  struct ibv_qp* const words = create_with(p, IBV_QPT_RC, IBV_QP_EX_WITH_ATOMIC_WRITE);
  CHECK(function_of(ibv_qp_to_qp_ex(words)) == NULL);
  CHECK(ibv_qp_to_qp_ex(words)->wr_atomic_write != NULL);
  struct ibv_qp* const flushes = create_with(p, IBV_QPT_RC, kWithFlush);
  CHECK(function_of(ibv_qp_to_qp_ex(flushes)) != NULL);
  CHECK(ibv_qp_to_qp_ex(flushes)->wr_atomic_write == NULL);
  CHECK(ibv_destroy_qp(words) == 0 && ibv_destroy_qp(flushes) == 0);
}

/* A new queue pair for each: a refusal ends it. */
static void expect(struct pair* p, uint32_t rkey, uint64_t address, size_t length, uint8_t type,
                   uint8_t level, enum ibv_wc_status status) {
  struct ibv_qp *from = create(p, IBV_QPT_RC), *to = create_rc_qp(p->pd, p->cq);
  CHECK(from != NULL);
  to_init(from);
  to_init(to);
  to_rts(from, to->qp_num);
  to_rts(to, from->qp_num);
  flush(ibv_qp_to_qp_ex(from), rkey, address, length, type, level);
  CHECK(ibv_wr_complete(ibv_qp_to_qp_ex(from)) == 0);
  const struct ibv_wc wc = next_completion(p->cq);
  CHECK(wc.wr_id == 7 && wc.status == status);
  CHECK(status != IBV_WC_SUCCESS || (int)wc.opcode == kWcFlush);
  CHECK(ibv_destroy_qp(from) == 0 && ibv_destroy_qp(to) == 0);
}

static void refused(struct ibv_qp_ex* qp, size_t length, uint8_t type, uint8_t level) {
  flush(qp, 1, 0, length, type, level);
  CHECK(ibv_wr_complete(qp) == EINVAL);
}

int main(void) {
  struct pair p = connect_pair();
  const unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  struct ibv_mr* mr = ibv_reg_mr(p.pd, p.memory, 4096, access | kAccessFlushGlobal);
  CHECK(mr != NULL);
  const uint64_t at = (uintptr_t)p.memory;
  expect(&p, mr->rkey, at, 4096, kGlobal, kRange, IBV_WC_SUCCESS);
  expect(&p, mr->rkey, 0, 12345678, kGlobal, kRegion, IBV_WC_SUCCESS);
  expect(&p, mr->rkey, at, 4097, kGlobal, kRange, IBV_WC_REM_ACCESS_ERR);
  expect(&p, mr->rkey, at, 4096, kPersistent, kRange, IBV_WC_REM_ACCESS_ERR);
  expect(&p, p.mr->rkey, at, 16, kGlobal, kRange, IBV_WC_REM_ACCESS_ERR); /* doesn't grant it */

  test_functions(&p);
  struct ibv_qp* qp = create(&p, IBV_QPT_RC);
  refused(ibv_qp_to_qp_ex(qp), 16, 0, kRange);
  refused(ibv_qp_to_qp_ex(qp), 16, 4, kRange);
  refused(ibv_qp_to_qp_ex(qp), 16, kGlobal, 2);
  refused(ibv_qp_to_qp_ex(qp), ((size_t)1 << 31) + 1, kGlobal, kRange);
  CHECK(ibv_destroy_qp(qp) == 0);
  CHECK_NULL(EOPNOTSUPP, create(&p, IBV_QPT_UC));

  /* The program's memory isn't persistent, whatever we do. */
  CHECK_NULL(EINVAL, ibv_reg_mr(p.pd, p.memory, 4096, access | kAccessFlushPersistent));
  CHECK(ibv_dereg_mr(mr) == 0);
  destroy_pair(&p);
  return 0;
}
