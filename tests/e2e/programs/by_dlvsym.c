/* A program that links nothing of RDMA: it opens the library when it runs, and asks for each
 * function by name and version, as plug-ins do. One WRITE from a queue pair to another. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "../../abi/abi.h"

static void* library;

static void* find(const char* name, const char* version) {
  void* const found = dlvsym(library, name, version);
  if (found == NULL) {
    fprintf(stderr, "dlvsym: %s\n", dlerror());
    exit(1);
  }
  return found;
}

#define FIND(name, version) __typeof__(name)* const v_##name = find(#name, version)

int main(void) {
  library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return fprintf(stderr, "dlopen: %s\n", dlerror()), 1;
#undef ibv_reg_mr
#undef ibv_query_port
  FIND(ibv_get_device_list, "IBVERBS_1.1");
  FIND(ibv_free_device_list, "IBVERBS_1.1");
  FIND(ibv_get_device_name, "IBVERBS_1.1");
  FIND(ibv_open_device, "IBVERBS_1.1");
  FIND(ibv_close_device, "IBVERBS_1.1");
  FIND(ibv_alloc_pd, "IBVERBS_1.1");
  FIND(ibv_dealloc_pd, "IBVERBS_1.1");
  FIND(ibv_reg_mr, "IBVERBS_1.1");
  FIND(ibv_dereg_mr, "IBVERBS_1.1");
  FIND(ibv_create_cq, "IBVERBS_1.1");
  FIND(ibv_destroy_cq, "IBVERBS_1.1");
  FIND(ibv_create_qp, "IBVERBS_1.1");
  FIND(ibv_destroy_qp, "IBVERBS_1.1");
  FIND(ibv_modify_qp, "IBVERBS_1.1");
  FIND(ibv_query_gid, "IBVERBS_1.1");

  struct ibv_context* context = NULL;
  struct ibv_device** list = v_ibv_get_device_list(NULL);
  CHECK(list != NULL);
  for (int i = 0; list[i] != NULL && context == NULL; ++i) {
    if (strcmp(v_ibv_get_device_name(list[i]), DEVICE) == 0) context = v_ibv_open_device(list[i]);
  }
  v_ibv_free_device_list(list);
  CHECK(context != NULL);

  static char memory[2][64] = {"by dlvsym", ""};
  struct ibv_pd* pd = v_ibv_alloc_pd(context);
  struct ibv_cq* cq = v_ibv_create_cq(context, 8, NULL, NULL, 0);
  CHECK(pd != NULL && cq != NULL);
  struct ibv_mr* mr =
      v_ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  CHECK(mr != NULL);
  struct ibv_qp* qp[2];
  for (int i = 0; i < 2; ++i) {
    struct ibv_qp_init_attr init = {.send_cq = cq,
                                    .recv_cq = cq,
                                    .cap = {.max_send_wr = 1, .max_send_sge = 1},
                                    .qp_type = IBV_QPT_RC};
    CHECK((qp[i] = v_ibv_create_qp(pd, &init)) != NULL);
  }
  for (int i = 0; i < 2; ++i) {
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    CHECK(v_ibv_modify_qp(qp[i], &attr,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
          0);
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                                .path_mtu = IBV_MTU_1024,
                                .dest_qp_num = qp[1 - i]->qp_num,
                                .ah_attr = {.is_global = 1, .port_num = 1}};
    CHECK(v_ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid) == 0);
    CHECK(v_ibv_modify_qp(qp[i], &attr, RTR_MASK) == 0);
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7};
    CHECK(v_ibv_modify_qp(qp[i], &attr,
                          IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                              IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
  }
  struct ibv_sge sge = {(uintptr_t)memory[0], sizeof memory[0], mr->lkey};
  struct ibv_send_wr wr = {.sg_list = &sge,
                           .num_sge = 1,
                           .opcode = IBV_WR_RDMA_WRITE,
                           .wr.rdma = {(uintptr_t)memory[1], mr->rkey}};
  CHECK(send_and_wait(cq, qp[0], wr) == IBV_WC_SUCCESS);
  CHECK(strcmp(memory[1], "by dlvsym") == 0);
  for (int i = 0; i < 2; ++i) CHECK(v_ibv_destroy_qp(qp[i]) == 0);
  CHECK(v_ibv_destroy_cq(cq) == 0 && v_ibv_dereg_mr(mr) == 0 && v_ibv_dealloc_pd(pd) == 0);
  CHECK(v_ibv_close_device(context) == 0);
  printf("one WRITE, every function by dlvsym()\n");
  return 0;
}
