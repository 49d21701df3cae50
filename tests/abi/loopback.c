/* Every operation of an RC queue pair, with what its completions say. */
#include <arpa/inet.h>

#include "abi.h"

/* The completions of one operation, in whichever order they come. */
static void expect_two(struct ibv_cq* cq, struct ibv_wc* sent, struct ibv_wc* received) {
  for (int i = 0; i < 2; ++i) {
    const struct ibv_wc wc = next_completion(cq);
    CHECK(wc.status == IBV_WC_SUCCESS);
    *(wc.opcode & IBV_WC_RECV ? received : sent) = wc;
  }
}

static void post(struct pair* p, struct ibv_send_wr* wr) {
  struct ibv_send_wr* bad = NULL;
  wr->send_flags |= IBV_SEND_SIGNALED;
  CHECK(ibv_post_send(p->qp[0], wr, &bad) == 0);
}

static void test_send(struct pair* p) {
  strcpy(p->memory, "sent from two pieces");
  post_receive(p, 1, 11, 4096, 100);
  struct ibv_sge sges[2] = {sge_of(p, 0, 10), sge_of(p, 10, 11)};
  struct ibv_send_wr wr = {.wr_id = 10, .sg_list = sges, .num_sge = 2, .opcode = IBV_WR_SEND};
  post(p, &wr);
  struct ibv_wc sent, received;
  expect_two(p->cq, &sent, &received);
  CHECK(sent.wr_id == 10 && sent.opcode == IBV_WC_SEND && sent.qp_num == p->qp[0]->qp_num);
  CHECK(received.wr_id == 11 && received.opcode == IBV_WC_RECV && received.byte_len == 21);
  CHECK(received.qp_num == p->qp[1]->qp_num && received.wc_flags == 0);
  CHECK(strcmp(p->memory + 4096, "sent from two pieces") == 0);
}

static void test_inline_send_with_immediate(struct pair* p) {
  char text[] = "not registered";
  post_receive(p, 1, 21, 8192, 100);
  struct ibv_sge sge = {(uintptr_t)text, sizeof text, 0};
  struct ibv_send_wr wr = {.wr_id = 20,
                           .sg_list = &sge,
                           .num_sge = 1,
                           .opcode = IBV_WR_SEND_WITH_IMM,
                           .send_flags = IBV_SEND_INLINE,
                           .imm_data = htonl(0x01020304)};
  post(p, &wr);
  memset(text, 0, sizeof text); /* inline: ours again at once */
  struct ibv_wc sent, received;
  expect_two(p->cq, &sent, &received);
  CHECK(received.wc_flags & IBV_WC_WITH_IMM && ntohl(received.imm_data) == 0x01020304);
  CHECK(strcmp(p->memory + 8192, "not registered") == 0);
}

static void test_write(struct pair* p) {
  memset(p->memory, 0x5a, 10000);
  memset(p->memory + 20000, 0, 10000);
  struct ibv_sge sge = sge_of(p, 0, 10000);
  struct ibv_send_wr wr = {.wr_id = 30, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
  wr.wr.rdma.remote_addr = (uintptr_t)p->memory + 20000;
  wr.wr.rdma.rkey = p->mr->rkey;
  post(p, &wr);
  const struct ibv_wc wc = next_completion(p->cq);
  CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 30 && wc.opcode == IBV_WC_RDMA_WRITE);
  CHECK(memcmp(p->memory, p->memory + 20000, 10000) == 0);
}

static void test_write_with_immediate(struct pair* p) {
  post_receive(p, 1, 41, 0, 0);
  struct ibv_sge sge = sge_of(p, 0, 100);
  struct ibv_send_wr wr = {.wr_id = 40,
                           .sg_list = &sge,
                           .num_sge = 1,
                           .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                           .imm_data = htonl(7)};
  wr.wr.rdma.remote_addr = (uintptr_t)p->memory + 40000;
  wr.wr.rdma.rkey = p->mr->rkey;
  post(p, &wr);
  struct ibv_wc sent, received;
  expect_two(p->cq, &sent, &received);
  CHECK(sent.opcode == IBV_WC_RDMA_WRITE);
  CHECK(received.wr_id == 41 && received.opcode == IBV_WC_RECV_RDMA_WITH_IMM);
  CHECK(received.byte_len == 100 && ntohl(received.imm_data) == 7);
}

static void test_read(struct pair* p) {
  memset(p->memory, 0, 9000);
  memset(p->memory + 30000, 0xa5, 9000);
  struct ibv_sge sge = sge_of(p, 0, 9000);
  struct ibv_send_wr wr = {.wr_id = 50, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ};
  wr.wr.rdma.remote_addr = (uintptr_t)p->memory + 30000;
  wr.wr.rdma.rkey = p->mr->rkey;
  post(p, &wr);
  const struct ibv_wc wc = next_completion(p->cq);
  CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RDMA_READ && wc.byte_len == 9000);
  CHECK(memcmp(p->memory, p->memory + 30000, 9000) == 0);
}

/* Last: it ends in the error state, on both sides. */
static void test_remote_access_error(struct pair* p) {
  post_receive(p, 0, 61, 0, 8);
  struct ibv_sge sge = sge_of(p, 0, 8);
  struct ibv_send_wr wr = {.wr_id = 60, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
  wr.wr.rdma.remote_addr = (uintptr_t)p->memory + kMemory - 4;
  wr.wr.rdma.rkey = p->mr->rkey;
  post(p, &wr);
  struct ibv_wc wc = next_completion(p->cq);
  CHECK(wc.wr_id == 60 && wc.status == IBV_WC_REM_ACCESS_ERR && wc.qp_num == p->qp[0]->qp_num);
  wc = next_completion(p->cq);
  CHECK(wc.wr_id == 61 && wc.status == IBV_WC_WR_FLUSH_ERR);
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;
  CHECK(ibv_query_qp(p->qp[0], &attr, IBV_QP_STATE, &init) == 0);
  CHECK(attr.qp_state == IBV_QPS_ERR);
}

int main(void) {
  struct pair p = connect_pair();
  test_send(&p);
  test_inline_send_with_immediate(&p);
  test_write(&p);
  test_write_with_immediate(&p);
  test_read(&p);
  test_remote_access_error(&p);
  destroy_pair(&p);
  return 0;
}
