// The smallest whole flow in C: a capability {addr, rkey}, one WRITE, one READ.
//   cc -o hello hello.c -lrdmacm -libverbs
//   verbena run -- ./hello server              in one terminal
//   verbena run -- ./hello client 127.0.0.1    in another one, or on another host
#include <endian.h>
#include <err.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <string.h>
#define DIE_IF(failed) ((failed) ? err(1, #failed) : (void)0)

static void serve(struct rdma_cm_id* listener) {
  char memory[64] = "";
  struct rdma_cm_id* id;
  struct rdma_cm_event* event;
  DIE_IF(rdma_listen(listener, 1));
  dprintf(1, "server: listening on port 7471\n");
  DIE_IF(rdma_get_request(listener, &id));
  const int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  struct ibv_mr* mr = ibv_reg_mr(id->pd, memory, sizeof memory, rights);
  DIE_IF(!mr);
  // Whoever holds these two numbers may write and read here. They travel with the answer.
  uint64_t offer[] = {htobe64((uintptr_t)memory), htobe64(mr->rkey)};
  struct rdma_conn_param answer = {offer, sizeof offer, .responder_resources = 1};
  DIE_IF(rdma_accept(id, &answer));
  DIE_IF(rdma_get_cm_event(id->channel, &event));  // nothing else happens here until the goodbye
  printf("server: %s, found \"%s\"\n", rdma_event_str(event->event), memory);
  DIE_IF(rdma_ack_cm_event(event) || ibv_dereg_mr(mr));
  rdma_destroy_ep(id);
}

static void greet(struct rdma_cm_id* id) {
  char memory[2][64] = {"hello from C", ""};
  struct ibv_mr* mr = rdma_reg_msgs(id, memory, sizeof memory);
  struct rdma_conn_param request = {.initiator_depth = 1, .retry_count = 7};
  DIE_IF(!mr || rdma_connect(id, &request));
  uint64_t offer[2];
  memcpy(offer, id->event->param.conn.private_data, sizeof offer);
  const uint64_t to = be64toh(offer[0]), rkey = be64toh(offer[1]);
  DIE_IF(rdma_post_write(id, NULL, memory[0], 64, mr, 0, to, rkey));
  DIE_IF(rdma_post_read(id, NULL, memory[1], 64, mr, IBV_SEND_SIGNALED, to, rkey));
  struct ibv_wc wc;  // of the READ: when it is done, so is the WRITE before it
  DIE_IF(rdma_get_send_comp(id, &wc) != 1);
  printf("client: %s, read back \"%s\"\n", ibv_wc_status_str(wc.status), memory[1]);
  DIE_IF(wc.status || rdma_disconnect(id) || ibv_dereg_mr(mr));
}

int main(int argc, char** argv) {
  const char* host = argc == 3 ? argv[2] : NULL;
  struct rdma_addrinfo hints = {.ai_flags = host ? 0 : RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP};
  struct ibv_qp_init_attr queues = {.cap = {2, 1, 1, 1, 0}};
  struct rdma_addrinfo* at;
  struct rdma_cm_id* id;
  if (argc < 2 || strcmp(argv[1], host ? "client" : "server"))
    errx(2, "usage: hello server | client HOST");
  DIE_IF(rdma_getaddrinfo(host, "7471", &hints, &at) || rdma_create_ep(&id, at, NULL, &queues));
  host ? greet(id) : serve(id);
  rdma_destroy_ep(id);
}
