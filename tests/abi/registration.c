/* Every way to register memory, and every kind of memory to register: on demand, null, the device's
 * own; further handles of the same objects; parent domains. */
#include <sys/mman.h>
#include <unistd.h>

#include "abi.h"

static enum ibv_wc_status write_to(struct pair* p, const struct ibv_sge* from, uint64_t address,
                                   uint32_t rkey) {
  struct ibv_sge sge = *from;
  const struct ibv_send_wr wr = {.wr_id = 1,
                                 .sg_list = &sge,
                                 .num_sge = 1,
                                 .opcode = IBV_WR_RDMA_WRITE,
                                 .wr.rdma = {.remote_addr = address, .rkey = rkey}};
  return send_and_wait(p->cq, p->qp[0], wr);
}

enum { kRemote = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE };

static void test_named_addresses(struct pair* p) {
  /* The peer calls the first byte 0x7000 and some; with ZERO_BASED, 0. */
  char* target = p->memory + 8192;
  const uint64_t iova = 0x7000 + ((uintptr_t)target & 0xfff);
  struct ibv_mr* mr = ibv_reg_mr_iova(p->pd, target, 4096, iova, kRemote);
  CHECK(mr != NULL && mr->addr == target);
  struct ibv_sge from = sge_of(p, 0, 4);
  memcpy(p->memory, "iova", 4);
  CHECK(write_to(p, &from, iova + 8, mr->rkey) == IBV_WC_SUCCESS);
  CHECK(memcmp(target + 8, "iova", 4) == 0);
  CHECK(ibv_dereg_mr(mr) == 0);
  mr = ibv_reg_mr(p->pd, target, 4096, kRemote | IBV_ACCESS_ZERO_BASED);
  CHECK(mr != NULL);
  memcpy(p->memory, "zero", 4);
  CHECK(write_to(p, &from, 16, mr->rkey) == IBV_WC_SUCCESS);
  CHECK(memcmp(target + 16, "zero", 4) == 0);
  CHECK(ibv_dereg_mr(mr) == 0);
}

/* Registered before there is memory; used when it is there. */
static void test_on_demand(struct pair* p) {
  char* later = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  volatile unsigned access = kRemote | IBV_ACCESS_ON_DEMAND; /* not a constant: ibv_reg_mr_iova2 */
  struct ibv_mr* mr = ibv_reg_mr(p->pd, later, 8192, access);
  CHECK(mr != NULL);
  struct ibv_sge range = {(uintptr_t)later, 8192, mr->lkey};
  CHECK(ibv_advise_mr(p->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, &range,
                      1) == EFAULT);
  CHECK(mprotect(later, 8192, PROT_READ | PROT_WRITE) == 0);
  CHECK(ibv_advise_mr(p->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, &range,
                      1) == 0);
  unsigned char present[2] = {0};
  CHECK(mincore(later, 8192, present) == 0 && (present[0] & present[1] & 1) == 1);
  memcpy(p->memory, "later", 5);
  struct ibv_sge from = sge_of(p, 0, 5);
  CHECK(write_to(p, &from, (uintptr_t)later + 4096, mr->rkey) == IBV_WC_SUCCESS);
  CHECK(memcmp(later + 4096, "later", 5) == 0);

  CHECK(ibv_advise_mr(p->pd, 17, 0, &range, 1) == EOPNOTSUPP);
  CHECK(ibv_advise_mr(p->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 1 << 5, &range, 1) == EINVAL);
  CHECK(ibv_advise_mr(p->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &range, 0) == EINVAL);
  struct ibv_sge bad = range;
  bad.length = 8193;
  CHECK(ibv_advise_mr(p->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &bad, 1) == EINVAL);
  bad.lkey = 0;
  CHECK(ibv_advise_mr(p->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &bad, 1) == ENOENT);
  bad = sge_of(p, 0, 100); /* not on demand */
  CHECK(ibv_advise_mr(p->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &bad, 1) == EINVAL);
  struct ibv_pd* other = ibv_alloc_pd(p->context);
  CHECK(ibv_advise_mr(other, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &range, 1) == EPERM);
  CHECK(ibv_dealloc_pd(other) == 0);
  CHECK(ibv_dereg_mr(mr) == 0);
  CHECK(munmap(later, 8192) == 0);
}

/* The whole address space: whatever the program has, now or later. */
static void test_implicit(struct pair* p) {
  volatile unsigned access = kRemote;
  CHECK_NULL(EINVAL, ibv_reg_mr(p->pd, NULL, SIZE_MAX, access));
  access |= IBV_ACCESS_ON_DEMAND;
  struct ibv_mr* mr = ibv_reg_mr(p->pd, NULL, SIZE_MAX, access);
  CHECK(mr != NULL);
  static char anywhere[64];
  char local[8] = "implicit";
  const struct ibv_sge from = {(uintptr_t)local, 8, mr->lkey};
  CHECK(write_to(p, &from, (uintptr_t)anywhere, mr->rkey) == IBV_WC_SUCCESS);
  CHECK(memcmp(anywhere, local, 8) == 0);
  CHECK(ibv_dereg_mr(mr) == 0);
}

static void test_null(struct pair* p) {
  struct ibv_mr* null = ibv_alloc_null_mr(p->pd);
  CHECK(null != NULL);
  char* target = p->memory + 4096;
  memset(target, 0x11, 32);
  const struct ibv_sge nothing = {0xdead0000, 16, null->lkey};
  CHECK(write_to(p, &nothing, (uintptr_t)target, p->mr->rkey) == IBV_WC_SUCCESS);
  CHECK(target[0] == 0 && target[15] == 0 && target[16] == 0x11);

  /* Of what is read, the middle goes nowhere. */
  memcpy(target, "aabbcc", 6);
  memset(p->memory, 0, 16);
  struct ibv_sge pieces[] = {sge_of(p, 0, 2), {0, 2, null->lkey}};
  struct ibv_send_wr wr = {.wr_id = 2,
                           .sg_list = pieces,
                           .num_sge = 2,
                           .opcode = IBV_WR_RDMA_READ,
                           .wr.rdma = {(uintptr_t)target, p->mr->rkey}};
  CHECK(send_and_wait(p->cq, p->qp[0], wr) == IBV_WC_SUCCESS);
  CHECK(memcmp(p->memory, "aa\0", 3) == 0);
  CHECK(ibv_rereg_mr(null, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_CMD);
  CHECK(ibv_dereg_mr(null) == 0);
}

static void test_device_memory(struct pair* p) {
  struct ibv_device_attr_ex device;
  CHECK(ibv_query_device_ex(p->context, NULL, &device) == 0);
  CHECK(device.max_dm_size >= 4096);
  struct ibv_alloc_dm_attr attr = {.length = device.max_dm_size + 1};
  CHECK_NULL(EINVAL, ibv_alloc_dm(p->context, &attr));
  attr = (struct ibv_alloc_dm_attr){.length = 64, .comp_mask = 1};
  CHECK_NULL(EINVAL, ibv_alloc_dm(p->context, &attr));
  attr = (struct ibv_alloc_dm_attr){.length = device.max_dm_size};
  struct ibv_dm* all = ibv_alloc_dm(p->context, &attr);
  CHECK(all != NULL);
  CHECK_NULL(ENOMEM, ibv_alloc_dm(p->context, &attr));
  CHECK(ibv_free_dm(all) == 0);

  attr = (struct ibv_alloc_dm_attr){.length = 64, .log_align_req = 6};
  struct ibv_dm* dm = ibv_alloc_dm(p->context, &attr);
  CHECK(dm != NULL);
  char bytes[64] = "device memory";
  CHECK(ibv_memcpy_to_dm(dm, 0, bytes, 16) == 0);
  CHECK(ibv_memcpy_to_dm(dm, 1, bytes, 16) == EINVAL);
  CHECK(ibv_memcpy_to_dm(dm, 0, bytes, 15) == EINVAL);
  CHECK(ibv_memcpy_to_dm(dm, 60, bytes, 8) == EFAULT);
  CHECK(ibv_memcpy_from_dm(bytes, dm, 68, 4) == EFAULT);

  CHECK_NULL(EINVAL, ibv_reg_dm_mr(p->pd, dm, 0, 64, IBV_ACCESS_LOCAL_WRITE));
  CHECK_NULL(EINVAL, ibv_reg_dm_mr(p->pd, dm, 4, 64, kRemote | IBV_ACCESS_ZERO_BASED));
  struct ibv_mr* mr = ibv_reg_dm_mr(p->pd, dm, 0, 64, kRemote | IBV_ACCESS_ZERO_BASED);
  CHECK(mr != NULL && mr->length == 64);
  CHECK(ibv_free_dm(dm) == EBUSY);
  const struct ibv_sge from = {0, 16, mr->lkey};
  CHECK(write_to(p, &from, (uintptr_t)p->memory, p->mr->rkey) == IBV_WC_SUCCESS);
  CHECK(strcmp(p->memory, "device memory") == 0);
  memcpy(p->memory, "back", 4);
  const struct ibv_sge back = sge_of(p, 0, 4);
  CHECK(write_to(p, &back, 32, mr->rkey) == IBV_WC_SUCCESS);
  CHECK(ibv_memcpy_from_dm(bytes, dm, 32, 4) == 0 && memcmp(bytes, "back", 4) == 0);
  CHECK(ibv_dereg_mr(mr) == 0);
  CHECK(ibv_free_dm(dm) == 0);
}

static void test_parent_domain(struct pair* p) {
  struct ibv_td_init_attr of_td = {.comp_mask = 1};
  CHECK_NULL(EINVAL, ibv_alloc_td(p->context, &of_td));
  of_td.comp_mask = 0;
  struct ibv_td* td = ibv_alloc_td(p->context, &of_td);
  struct ibv_pd* pd = ibv_alloc_pd(p->context);
  CHECK(td != NULL && pd != NULL);
  struct ibv_parent_domain_init_attr attr = {.td = td};
  CHECK_NULL(EINVAL, ibv_alloc_parent_domain(p->context, &attr)); /* needs a domain */
  attr.pd = pd;
  attr.comp_mask = 1u << 20;
  CHECK_NULL(EOPNOTSUPP, ibv_alloc_parent_domain(p->context, &attr));
  attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
  CHECK_NULL(EINVAL, ibv_alloc_parent_domain(p->context, &attr));
  attr.comp_mask = 0;
  struct ibv_pd* parent = ibv_alloc_parent_domain(p->context, &attr);
  CHECK(parent != NULL);
  attr.pd = parent;
  CHECK_NULL(EINVAL, ibv_alloc_parent_domain(p->context, &attr)); /* not over another */

  CHECK(ibv_dealloc_pd(pd) == EBUSY);
  CHECK(ibv_dealloc_td(td) == EBUSY);
  struct ibv_mr* mr = ibv_reg_mr(parent, p->memory, 64, IBV_ACCESS_LOCAL_WRITE);
  struct ibv_qp* qp = create_rc_qp(parent, p->cq);
  CHECK(mr != NULL && qp->pd == parent);
  CHECK(ibv_dealloc_pd(parent) == EBUSY);
  CHECK(ibv_destroy_qp(qp) == 0);
  CHECK(ibv_dealloc_pd(parent) == EBUSY);
  CHECK(ibv_dereg_mr(mr) == 0);
  CHECK(ibv_dealloc_pd(parent) == 0);
  CHECK(ibv_dealloc_td(td) == 0);
  CHECK(ibv_dealloc_pd(pd) == 0);
}

/* A second context on the same file sees the first one's objects by their handles. */
static void test_import(struct pair* p) {
  const int fd = dup(p->context->cmd_fd);
  CHECK(fd >= 0);
  struct ibv_context* context = ibv_import_device(fd);
  CHECK(context != NULL && context != p->context && context->device == p->context->device);
  CHECK_NULL(EINVAL, ibv_import_pd(context, 0xabcdef));
  struct ibv_pd* pd = ibv_import_pd(context, p->pd->handle);
  CHECK(pd != NULL && pd != p->pd && pd->context == context);
  CHECK_NULL(EINVAL, ibv_import_mr(pd, 0));
  struct ibv_mr* mr = ibv_import_mr(pd, p->mr->handle);
  CHECK(mr != NULL && mr->lkey == p->mr->lkey && mr->addr == NULL);

  /* Its queue pairs are in the same domain, so the same key is good for them. */
  struct ibv_cq* cq = ibv_create_cq(context, 8, NULL, NULL, 0);
  struct ibv_qp* qp = create_rc_qp(pd, cq);
  to_init(qp);
  to_rts(qp, qp->qp_num);
  memcpy(p->memory, "import", 6);
  struct ibv_sge sge = {(uintptr_t)p->memory, 6, mr->lkey};
  const struct ibv_send_wr wr = {.wr_id = 3,
                                 .sg_list = &sge,
                                 .num_sge = 1,
                                 .opcode = IBV_WR_RDMA_WRITE,
                                 .wr.rdma = {(uintptr_t)p->memory + 4096, mr->rkey}};
  CHECK(send_and_wait(cq, qp, wr) == IBV_WC_SUCCESS);
  CHECK(memcmp(p->memory + 4096, "import", 6) == 0);
  CHECK(ibv_destroy_qp(qp) == 0);
  CHECK(ibv_destroy_cq(cq) == 0);

  struct ibv_alloc_dm_attr attr = {.length = 16};
  struct ibv_dm* dm = ibv_alloc_dm(p->context, &attr);
  CHECK_NULL(EINVAL, ibv_import_dm(context, dm->handle + 1));
  struct ibv_dm* same = ibv_import_dm(context, dm->handle);
  CHECK(same != NULL);
  char bytes[16] = "shared";
  CHECK(ibv_memcpy_to_dm(dm, 0, bytes, 16) == 0);
  memset(bytes, 0, 16);
  CHECK(ibv_memcpy_from_dm(bytes, same, 0, 16) == 0 && strcmp(bytes, "shared") == 0);
  ibv_unimport_dm(same);
  CHECK(ibv_free_dm(dm) == 0);

  ibv_unimport_mr(mr);
  ibv_unimport_pd(pd);
  CHECK(ibv_close_device(context) == 0);
  CHECK(ibv_import_device(-1) == NULL);
}

/* What this device doesn't have, in the kernel's words. */
static void test_unsupported(struct pair* p) {
  struct ibv_counters_init_attr counters = {0};
  CHECK_NULL(EOPNOTSUPP, ibv_create_counters(p->context, &counters));
  struct ibv_wq_init_attr wq = {.wq_type = IBV_WQT_RQ,
                                .max_wr = 1,
                                .max_sge = 1,
                                .pd = p->pd,
                                .cq = p->cq,
                                .comp_mask = IBV_WQ_INIT_ATTR_FLAGS,
                                .create_flags = IBV_WQ_FLAGS_CVLAN_STRIPPING};
  CHECK_NULL(EOPNOTSUPP, ibv_create_wq(p->context, &wq));
  struct ibv_rwq_ind_table_init_attr table = {0};
  CHECK_NULL(EINVAL, ibv_create_rwq_ind_table(p->context, &table));
  struct ibv_flow_attr flow = {.type = IBV_FLOW_ATTR_NORMAL,
                               .size = sizeof flow,
                               .port = 1}; /* flows lead to raw packet queue pairs only */
  CHECK_NULL(EINVAL, ibv_create_flow(p->qp[0], &flow));
  struct ibv_qp_rate_limit_attr rate = {.rate_limit = 1};
  CHECK(ibv_modify_qp_rate_limit(p->qp[0], &rate) == EOPNOTSUPP);
  struct ibv_ece ece = {0};
  CHECK(ibv_query_ece(p->qp[0], &ece) == EOPNOTSUPP && ibv_set_ece(p->qp[0], &ece) == EOPNOTSUPP);
  CHECK(ibv_query_qp_data_in_order(p->qp[0], IBV_WR_RDMA_WRITE, 0) == 0);
  CHECK_NULL(EBADF, ibv_reg_dmabuf_mr(p->pd, 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE));
}

static void test_device(struct pair* p) {
  struct ibv_device_attr_ex device;
  CHECK(ibv_query_device_ex(p->context, NULL, &device) == 0);
  CHECK((device.odp_caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT) != 0);
  CHECK(device.completion_timestamp_mask == UINT64_MAX && device.hca_core_clock == 1000000);
  CHECK(device.tm_caps.max_num_tags == 0);
  CHECK(device.rss_caps.supported_qpts == 1u << IBV_QPT_RAW_PACKET);
  struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  CHECK(ibv_query_rt_values_ex(p->context, &values) == 0);
  CHECK(values.raw_clock.tv_nsec >= now.tv_sec * 1000000000 + now.tv_nsec);
  values.comp_mask = 1u << 9;
  CHECK(ibv_query_rt_values_ex(p->context, &values) == EOPNOTSUPP);
}

int main(void) {
  struct pair p = connect_pair();
  test_named_addresses(&p);
  test_on_demand(&p);
  test_implicit(&p);
  test_null(&p);
  test_device_memory(&p);
  test_parent_domain(&p);
  test_import(&p);
  test_unsupported(&p);
  test_device(&p);
  destroy_pair(&p);
  return 0;
}
