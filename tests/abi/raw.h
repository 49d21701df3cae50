/* What the tests of raw packets share: a card on the loopback interface of a network namespace of
 * the test's own, queue pairs, frames and rules. It needs _GNU_SOURCE. */
#pragma once

#include <endian.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "abi.h"

enum { kSkipped = 77, kFrame = 100, kMtuFrame = 65536 + 14 };

/* For experiments: nobody else on the machine listens to it. */
static const uint16_t kType = 0x88b5;
static const uint8_t kTo[6] = {0x01, 0x50, 0x56, 0x19, 0x20, 0xa7};
static const uint8_t kFrom[6] = {0x02, 0, 0, 0, 0, 1};

struct card {
  struct ibv_context* context;
  struct ibv_pd* pd;
  struct ibv_comp_channel* channel;
  struct ibv_cq* cq;
  struct ibv_mr* mr;
  uint8_t* memory;
};

enum { kRoom = 1 << 18, kReceives = 1 << 17 };

static inline struct card open_card(void) {
  struct card c = {.context = open_loopback()};
  c.pd = ibv_alloc_pd(c.context);
  c.channel = ibv_create_comp_channel(c.context);
  CHECK(c.pd != NULL && c.channel != NULL);
  c.cq = ibv_create_cq(c.context, 64, NULL, c.channel, 0);
  c.memory = calloc(1, kRoom);
  c.mr = ibv_reg_mr(c.pd, c.memory, kRoom, IBV_ACCESS_LOCAL_WRITE);
  CHECK(c.cq != NULL && c.mr != NULL);
  return c;
}

static inline struct ibv_qp* create_raw(const struct card* c) {
  struct ibv_qp_init_attr init = {
      .send_cq = c->cq,
      .recv_cq = c->cq,
      .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2},
      .qp_type = IBV_QPT_RAW_PACKET,
      .sq_sig_all = 1,
  };
  return ibv_create_qp(c->pd, &init);
}

static inline void raw_to_rts(struct ibv_qp* qp) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
  CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT) == 0);
  attr.qp_state = IBV_QPS_RTR;
  CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
  attr.qp_state = IBV_QPS_RTS;
  CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
}

/* False: the machine forbids it. */
static inline int enter_network(void) {
  if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return 0;
  struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  CHECK(fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &request) == 0);
  close(fd);
  return 1;
}

/* A rule with one specification behind it. */
struct eth_flow {
  struct ibv_flow_attr attr;
  struct ibv_flow_spec_eth eth;
};

static inline struct eth_flow flow_to(const uint8_t mac[6]) {
  struct eth_flow f = {
      .attr = {.size = sizeof f, .num_of_specs = 1, .port = 1},
      .eth = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof f.eth},
  };
  memcpy(f.eth.val.dst_mac, mac, 6);
  memset(f.eth.mask.dst_mac, 0xff, 6);
  f.eth.val.ether_type = htobe16(kType);
  f.eth.mask.ether_type = 0xffff;
  return f;
}

static inline void write_frame(const struct card* c, const uint8_t to[6], uint8_t filling) {
  memcpy(c->memory, to, 6);
  memcpy(c->memory + 6, kFrom, 6);
  const uint16_t type = htobe16(kType);
  memcpy(c->memory + 12, &type, 2);
  memset(c->memory + 14, filling, kMtuFrame - 14);
}

static inline void post_raw_receive(const struct card* c, struct ibv_qp* qp, uint64_t id) {
  struct ibv_sge sge = {(uintptr_t)c->memory + kReceives, kRoom - kReceives, c->mr->lkey};
  struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1};
  struct ibv_recv_wr* bad = NULL;
  CHECK(ibv_post_recv(qp, &wr, &bad) == 0);
}
