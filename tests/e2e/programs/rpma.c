/* Remote memory by librpma: the client writes the server's memory, flushes, writes eight bytes
 * atomically, says so by a WRITE with immediate data, and reads everything back. Both compare.
 *
 *   cc -O2 -o rpma rpma.c -lrpma -libverbs
 *   rpma server ADDRESS PORT; rpma client ADDRESS PORT
 */
#include <arpa/inet.h>
#include <librpma.h>
#include <unistd.h>

#include "must.h"

enum {
  kSize = 1 << 20,
  kLast = kSize - RPMA_ATOMIC_WRITE_ALIGNMENT, /* where the atomic write goes */
  kSign = 0x5eed,                              /* the client's immediate data */
  kLimit = 60                                  /* seconds, for all of it */
};

#define DONE(call)                                                                   \
  do {                                                                               \
    const int failure = (call);                                                      \
    if (failure != 0) {                                                              \
      fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, rpma_err_2str(failure)); \
      exit(1);                                                                       \
    }                                                                                \
  } while (0)

static uint8_t pattern(size_t at) { return (uint8_t)(at * 31 + at / 251); }

static const char kAtomic[RPMA_ATOMIC_WRITE_ALIGNMENT] = "atomic!";

static void check_memory(const uint8_t* memory) {
  for (size_t i = 0; i < kLast; ++i) {
    if (memory[i] != pattern(i)) {
      fprintf(stderr, "byte %zu is %d, not %d\n", i, memory[i], pattern(i));
      exit(1);
    }
  }
  MUST(memcmp(memory + kLast, kAtomic, sizeof kAtomic) == 0);
}

static void expect_event(struct rpma_conn* conn, enum rpma_conn_event expected) {
  enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
  DONE(rpma_conn_next_event(conn, &event));
  if (event != expected) {
    fprintf(stderr, "event %s, not %s\n", rpma_utils_conn_event_2str(event),
            rpma_utils_conn_event_2str(expected));
    exit(1);
  }
}

static struct ibv_wc next_completion(struct rpma_conn* conn) {
  struct rpma_cq* cq = NULL;
  struct ibv_wc wc;
  DONE(rpma_conn_get_cq(conn, &cq));
  int result = 0;
  do {
    DONE(rpma_cq_wait(cq));
    result = rpma_cq_get_wc(cq, 1, &wc, NULL);
  } while (result == RPMA_E_NO_COMPLETION);
  DONE(result);
  if (wc.status != IBV_WC_SUCCESS) {
    fprintf(stderr, "completion: %s\n", ibv_wc_status_str(wc.status));
    exit(1);
  }
  return wc;
}

static struct rpma_peer* open_peer(const char* address, enum rpma_util_ibv_context_type type) {
  struct ibv_context* context = NULL;
  struct rpma_peer* peer = NULL;
  DONE(rpma_utils_get_ibv_context(address, type, &context));
  DONE(rpma_peer_new(context, &peer));
  return peer;
}

static void serve(const char* address, const char* port) {
  struct rpma_peer* peer = open_peer(address, RPMA_UTIL_IBV_CONTEXT_LOCAL);
  uint8_t* memory = calloc(1, kSize);
  struct rpma_mr_local* mr = NULL;
  DONE(rpma_mr_reg(peer, memory, kSize,
                   RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_RECV |
                       RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY,
                   &mr));
  uint8_t descriptor[64];
  size_t length = 0;
  DONE(rpma_mr_get_descriptor_size(mr, &length));
  MUST(length <= sizeof descriptor);
  DONE(rpma_mr_get_descriptor(mr, descriptor));

  struct rpma_ep* listener = NULL;
  struct rpma_conn_req* request = NULL;
  struct rpma_conn* conn = NULL;
  DONE(rpma_ep_listen(peer, address, port, &listener));
  printf("listening\n");
  fflush(stdout);
  DONE(rpma_ep_next_conn_req(listener, NULL, &request));
  DONE(rpma_conn_req_recv(request, mr, 0, 0, "the client's word"));
  const struct rpma_conn_private_data data = {.ptr = descriptor, .len = (uint8_t)length};
  DONE(rpma_conn_req_connect(&request, &data, &conn));
  expect_event(conn, RPMA_CONN_ESTABLISHED);

  const struct ibv_wc wc = next_completion(conn);
  MUST(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM);
  MUST((wc.wc_flags & IBV_WC_WITH_IMM) && ntohl(wc.imm_data) == kSign);
  check_memory(memory);

  expect_event(conn, RPMA_CONN_CLOSED);
  DONE(rpma_conn_disconnect(conn));
  DONE(rpma_conn_delete(&conn));
  DONE(rpma_ep_shutdown(&listener));
  DONE(rpma_mr_dereg(&mr));
  DONE(rpma_peer_delete(&peer));
  free(memory);
}

static void ask(const char* address, const char* port) {
  struct rpma_peer* peer = open_peer(address, RPMA_UTIL_IBV_CONTEXT_REMOTE);
  uint8_t* out = malloc(kSize);
  uint8_t* in = calloc(1, kSize);
  for (size_t i = 0; i < kSize; ++i) out[i] = pattern(i);
  struct rpma_mr_local* source = NULL;
  struct rpma_mr_local* target = NULL;
  DONE(rpma_mr_reg(peer, out, kSize, RPMA_MR_USAGE_WRITE_SRC, &source));
  DONE(rpma_mr_reg(peer, in, kSize, RPMA_MR_USAGE_READ_DST, &target));

  struct rpma_conn_req* request = NULL;
  struct rpma_conn* conn = NULL;
  DONE(rpma_conn_req_new(peer, address, port, NULL, &request));
  DONE(rpma_conn_req_connect(&request, NULL, &conn));
  expect_event(conn, RPMA_CONN_ESTABLISHED);
  struct rpma_conn_private_data data;
  struct rpma_mr_remote* remote = NULL;
  size_t size = 0;
  DONE(rpma_conn_get_private_data(conn, &data));
  DONE(rpma_mr_remote_from_descriptor(data.ptr, data.len, &remote));
  DONE(rpma_mr_remote_get_size(remote, &size));
  MUST(size == kSize);

  DONE(rpma_write(conn, remote, 0, source, 0, kSize, RPMA_F_COMPLETION_ON_ERROR, NULL));
  DONE(rpma_flush(conn, remote, 0, kSize, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS,
                  "flushed"));
  MUST(strcmp((const char*)next_completion(conn).wr_id, "flushed") == 0);
  DONE(rpma_atomic_write(conn, remote, kLast, kAtomic, RPMA_F_COMPLETION_ALWAYS, "atomic"));
  MUST(strcmp((const char*)next_completion(conn).wr_id, "atomic") == 0);
  DONE(
      rpma_write_with_imm(conn, remote, 0, source, 0, 64, RPMA_F_COMPLETION_ALWAYS, kSign, "said"));
  MUST(strcmp((const char*)next_completion(conn).wr_id, "said") == 0);
  DONE(rpma_read(conn, target, 0, remote, 0, kSize, RPMA_F_COMPLETION_ALWAYS, "read"));
  MUST(strcmp((const char*)next_completion(conn).wr_id, "read") == 0);
  check_memory(in);

  DONE(rpma_mr_remote_delete(&remote));
  DONE(rpma_conn_disconnect(conn));
  expect_event(conn, RPMA_CONN_CLOSED);
  DONE(rpma_conn_delete(&conn));
  DONE(rpma_mr_dereg(&source));
  DONE(rpma_mr_dereg(&target));
  DONE(rpma_peer_delete(&peer));
  free(out);
  free(in);
}

int main(int argc, char** argv) {
  MUST(argc == 4);
  alarm(kLimit);
  if (strcmp(argv[1], "server") == 0) {
    serve(argv[2], argv[3]);
  } else {
    ask(argv[2], argv[3]);
  }
  printf("%d bytes are right\n", kSize);
  return 0;
}
