#pragma once

/* What the files of this lab share: two queue pairs of one process, "left" and "right". */

#include <infiniband/verbs.h>

#include "labs/common/lab_c.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { kMost = 1 << 20 };

struct verbs_side {
  const char* name;
  struct ibv_cq* cq; /* of its own, so that each completion says whose it is */
  struct ibv_qp* qp;
  struct ibv_qp_cap cap; /* as granted */
  uint8_t* memory;       /* room for two messages, then the word for atomics */
  size_t length;
  struct ibv_mr* mr;
  uint32_t psn;
};

struct verbs_pair {
  const struct lab_options* options;
  struct ibv_context* context;
  struct ibv_device_attr device;
  struct ibv_port_attr port;
  union ibv_gid gid;
  uint8_t gid_index;
  struct ibv_pd* pd;
  struct verbs_side left, right;
};

/* Steps 1 to 3, and the last one. */
void verbs_open(struct verbs_pair* pair, const struct lab_options* options);
void verbs_close(struct verbs_pair* pair);
/* Steps 4 to 8: one request of each kind, and what completes. */
void verbs_send(struct verbs_pair* pair);
void verbs_send_with_imm(struct verbs_pair* pair);
void verbs_write(struct verbs_pair* pair);
void verbs_read(struct verbs_pair* pair);
void verbs_atomics(struct verbs_pair* pair);
/* Steps 9 to 11: what is refused, and what fails. */
void verbs_refused_in_the_middle(struct verbs_pair* pair);
void verbs_refused_receive(struct verbs_pair* pair);
void verbs_failure(struct verbs_pair* pair);

/* The two messages of a side, and its word for atomics. */
static inline uint8_t* verbs_out(const struct verbs_side* side) { return side->memory; }
static inline uint8_t* verbs_in(const struct verbs_side* side) {
  return side->memory + (side->length - sizeof(uint64_t)) / 2;
}
static inline uint64_t* verbs_word(const struct verbs_side* side) {
  return (uint64_t*)(void*)(side->memory + side->length - sizeof(uint64_t));
}

/* A piece of a side's memory, as its device knows it. */
struct ibv_sge verbs_piece(const struct verbs_side* side, const uint8_t* at, size_t length);

/* Print every field that means something, and then post; the call must succeed. */
void verbs_post_send(const struct verbs_side* side, struct ibv_send_wr* request);
void verbs_post_recv(const struct verbs_side* side, struct ibv_recv_wr* request);
/* The next completion, printed; fields that mean nothing in it are a dash. */
struct ibv_wc verbs_take(const struct verbs_pair* pair, const struct verbs_side* side);
/* The same without a word. */
struct ibv_wc verbs_poll(const struct verbs_pair* pair, const struct verbs_side* side);
/* Ends the lab if the completion isn't this one. */
void verbs_expect(const struct verbs_side* side, const struct ibv_wc* done, uint64_t id,
                  enum ibv_wc_opcode opcode);

void verbs_show_send(const struct verbs_side* side, const struct ibv_send_wr* request);
void verbs_show_recv(const struct verbs_side* side, const struct ibv_recv_wr* request);
void verbs_show_completion(const struct verbs_side* side, const struct ibv_wc* done);

#ifdef __cplusplus
}
#endif
