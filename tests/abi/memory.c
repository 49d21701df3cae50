/* Atomics, memory windows of both types, invalidation, and changed registrations. */
#include "abi.h"

static struct ibv_send_wr write_to(struct ibv_sge* sge, uint64_t address, uint32_t rkey) {
  return (struct ibv_send_wr){.wr_id = 1,
                              .sg_list = sge,
                              .num_sge = 1,
                              .opcode = IBV_WR_RDMA_WRITE,
                              .wr.rdma = {.remote_addr = address, .rkey = rkey}};
}

static void test_atomics(struct pair* p) {
  uint64_t* word = (uint64_t*)(p->memory + 4096);
  uint64_t* before = (uint64_t*)p->memory;
  *word = 40;
  struct ibv_sge sge = sge_of(p, 0, 8);
  struct ibv_send_wr wr = {
      .wr_id = 2,
      .sg_list = &sge,
      .num_sge = 1,
      .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
      .wr.atomic = {.remote_addr = (uintptr_t)word, .compare_add = 2, .rkey = p->mr->rkey}};
  CHECK(send_and_wait(p->cq, p->qp[0], wr) == IBV_WC_SUCCESS);
  CHECK(*before == 40 && *word == 42);
  wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
  wr.wr.atomic.compare_add = 42;
  wr.wr.atomic.swap = 7;
  CHECK(send_and_wait(p->cq, p->qp[0], wr) == IBV_WC_SUCCESS);
  CHECK(*before == 42 && *word == 7);
  CHECK(send_and_wait(p->cq, p->qp[0], wr) == IBV_WC_SUCCESS); /* it is no longer 42 */
  CHECK(*before == 7 && *word == 7);
}

static struct ibv_mw_bind_info onto(const struct pair* p, size_t offset, uint64_t length) {
  return (struct ibv_mw_bind_info){.mr = p->mr,
                                   .addr = (uintptr_t)p->memory + offset,
                                   .length = length,
                                   .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
}

/* Type 1: bound by a verb of its own, each time with another key; of length 0: unbound. */
static void test_window_1(struct pair* p) {
  struct ibv_mw* mw = ibv_alloc_mw(p->pd, IBV_MW_TYPE_1);
  CHECK(mw != NULL && mw->pd == p->pd && mw->type == IBV_MW_TYPE_1);
  const uint32_t first = mw->rkey;
  struct ibv_mw_bind bind = {
      .wr_id = 3, .send_flags = IBV_SEND_SIGNALED, .bind_info = onto(p, 4096, 100)};
  CHECK(ibv_bind_mw(p->qp[1], mw, &bind) == 0);
  struct ibv_wc wc = next_completion(p->cq);
  CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_BIND_MW && mw->rkey != first);
  CHECK(ibv_dereg_mr(p->mr) == EBUSY);

  memset(p->memory, 0x77, 100);
  struct ibv_sge sge = sge_of(p, 0, 100);
  CHECK(send_and_wait(p->cq, p->qp[0], write_to(&sge, (uintptr_t)p->memory + 4096, mw->rkey)) ==
        IBV_WC_SUCCESS);
  CHECK(p->memory[4096] == 0x77 && p->memory[4195] == 0x77);

  bind.bind_info = (struct ibv_mw_bind_info){0};
  CHECK(ibv_bind_mw(p->qp[1], mw, &bind) == 0);
  CHECK(next_completion(p->cq).status == IBV_WC_SUCCESS);
  CHECK(ibv_dealloc_pd(p->pd) == EBUSY);
  CHECK(ibv_dealloc_mw(mw) == 0);
}

/* Type 2: bound by a request, with a key whose low byte the program chose; ended by either side.
 */
static void test_window_2(struct pair* p) {
  struct ibv_mw* mw = ibv_alloc_mw(p->pd, IBV_MW_TYPE_2);
  CHECK(mw != NULL);
  struct ibv_send_wr bind = {.wr_id = 4, .opcode = IBV_WR_BIND_MW};
  bind.bind_mw.mw = mw;
  bind.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
  bind.bind_mw.bind_info = onto(p, 4096, 100);
  CHECK(send_and_wait(p->cq, p->qp[1], bind) == IBV_WC_SUCCESS);

  struct ibv_sge sge = sge_of(p, 0, 10);
  const uintptr_t target = (uintptr_t)p->memory + 4096;
  CHECK(send_and_wait(p->cq, p->qp[0], write_to(&sge, target, bind.bind_mw.rkey)) ==
        IBV_WC_SUCCESS);

  /* The peer gives it back. */
  post_receive(p, 1, 5, 8192, 64);
  struct ibv_send_wr give_back = {.wr_id = 6,
                                  .opcode = IBV_WR_SEND_WITH_INV,
                                  .send_flags = IBV_SEND_SIGNALED,
                                  .invalidate_rkey = bind.bind_mw.rkey};
  struct ibv_send_wr* bad = NULL;
  CHECK(ibv_post_send(p->qp[0], &give_back, &bad) == 0);
  for (int i = 0; i < 2; ++i) {
    const struct ibv_wc wc = next_completion(p->cq);
    CHECK(wc.status == IBV_WC_SUCCESS);
    if (wc.wr_id != 5) continue;
    CHECK((wc.wc_flags & IBV_WC_WITH_INV) != 0 && wc.invalidated_rkey == bind.bind_mw.rkey);
  }

  /* Bound anew, and taken back by its owner. mw->rkey still is what it was at first. */
  bind.bind_mw.rkey = ibv_inc_rkey(bind.bind_mw.rkey);
  CHECK(send_and_wait(p->cq, p->qp[1], bind) == IBV_WC_SUCCESS);
  const struct ibv_send_wr take_back = {
      .wr_id = 7, .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = bind.bind_mw.rkey};
  CHECK(send_and_wait(p->cq, p->qp[1], take_back) == IBV_WC_SUCCESS);
  CHECK(send_and_wait(p->cq, p->qp[0], write_to(&sge, target, bind.bind_mw.rkey)) ==
        IBV_WC_REM_ACCESS_ERR);
  CHECK(ibv_dealloc_mw(mw) == 0);
}

/* The same key, another range, fewer rights, another domain. */
static void test_changed_registration(struct pair* p) {
  static char other[8192];
  const uint32_t rkey = p->mr->rkey;
  CHECK(ibv_rereg_mr(p->mr, 0, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT);
  CHECK(ibv_rereg_mr(p->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE) ==
        IBV_REREG_MR_ERR_INPUT);
  CHECK(ibv_rereg_mr(p->mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, (void*)4096, 4096, 0) ==
        IBV_REREG_MR_ERR_CMD);
  CHECK(p->mr->addr == p->memory);

  struct ibv_mr* source = ibv_reg_mr(p->pd, p->memory, 4096, IBV_ACCESS_LOCAL_WRITE);
  CHECK(source != NULL);
  memset(p->memory, 0x33, 64);
  struct ibv_sge sge = {(uintptr_t)p->memory, 64, source->lkey};
  CHECK(ibv_rereg_mr(p->mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, other, sizeof other, 0) == 0);
  CHECK(p->mr->addr == other && p->mr->length == sizeof other && p->mr->rkey == rkey);
  CHECK(send_and_wait(p->cq, p->qp[0], write_to(&sge, (uintptr_t)other, rkey)) == IBV_WC_SUCCESS);
  CHECK(other[0] == 0x33 && other[63] == 0x33);

  struct ibv_pd* pd = ibv_alloc_pd(p->context);
  CHECK(ibv_rereg_mr(p->mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0) == 0 && p->mr->pd == pd);
  CHECK(ibv_dealloc_pd(pd) == EBUSY);
  CHECK(send_and_wait(p->cq, p->qp[0], write_to(&sge, (uintptr_t)other, rkey)) ==
        IBV_WC_REM_ACCESS_ERR);
  CHECK(ibv_dereg_mr(source) == 0);
}

int main(void) {
  struct pair p = connect_pair();
  test_atomics(&p);
  test_window_1(&p);
  test_window_2(&p); /* ends in an error */
  destroy_pair(&p);
  p = connect_pair();
  test_changed_registration(&p);
  CHECK(ibv_close_device(p.context) == 0); /* the rest goes with it */
  free(p.memory);
  return 0;
}
