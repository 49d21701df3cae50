/* Frames that come, or go, another way than by shared memory. On 127.0.0.1.
 *
 *   ways injected           two processes that are connected by rings. One of them forges, over
 * UDP, the next request and the next answer of the other. Both are dropped, and the true ones come
 * through. ways namesake ADDRESS   writes to a queue pair of the host ADDRESS, which has the number
 * of one of this process. The own one must get nothing.
 *
 * Exit status 0: it was so. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "two_ends.h"

enum { kPort = 4791, kPsn = 0x123456, kSize = 8, kWriteOnly = 0x0a, kAcknowledge = 0x11 };

static uint32_t crc(uint32_t c, const uint8_t* bytes, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    c ^= bytes[i];
    for (int k = 0; k < 8; ++k) c = c & 1 ? 0xedb88320u ^ (c >> 1) : c >> 1;
  }
  return c;
}

static void store(uint8_t* to, uint64_t value, size_t size) {
  for (size_t i = 0; i < size; ++i) to[i] = (uint8_t)(value >> 8 * (size - 1 - i));
}

/* Over eight bytes of ones, the headers with what changes on the way as ones, and the payload. */
static void seal(uint8_t* frame, size_t size, uint16_t source_port) {
  uint8_t head[8 + 20 + 8 + 12];
  memset(head, 0xff, 8);
  uint8_t *ip = head + 8, *udp = ip + 20, *bth = udp + 8;
  memset(ip, 0, 20);
  ip[0] = 0x45, ip[1] = 0xff;
  store(ip + 2, 20 + 8 + size, 2);
  ip[6] = 0x40; /* don't fragment; identification 0 */
  ip[8] = 0xff, ip[9] = IPPROTO_UDP, ip[10] = ip[11] = 0xff;
  store(ip + 12, INADDR_LOOPBACK, 4);
  store(ip + 16, INADDR_LOOPBACK, 4);
  store(udp, source_port, 2);
  store(udp + 2, kPort, 2);
  store(udp + 4, 8 + size, 2);
  udp[6] = udp[7] = 0xff;
  memcpy(bth, frame, 12);
  bth[4] = 0xff;
  const uint32_t c = ~crc(crc(0xffffffffu, head, sizeof head), frame + 12, size - 12 - 4);
  for (int i = 0; i < 4; ++i) frame[size - 4 + (size_t)i] = (uint8_t)(c >> 8 * i);
}

static void begin_frame(uint8_t* frame, uint8_t opcode, uint32_t qpn, uint32_t psn) {
  memset(frame, 0, 12);
  frame[0] = opcode;
  frame[2] = frame[3] = 0xff; /* the default partition */
  store(frame + 5, qpn, 3);
  frame[8] = 0x80; /* asks for an acknowledgement */
  store(frame + 9, psn, 3);
}

static void send_frame(int fd, uint16_t port, uint8_t* frame, size_t size) {
  const struct sockaddr_in to = {
      .sin_family = AF_INET, .sin_port = htons(kPort), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  seal(frame, size, port);
  CHECK(sendto(fd, frame, size, 0, (const struct sockaddr*)&to, sizeof to) == (ssize_t)size);
}

/* The next WRITE to the target, and its answer to the sender. */
static void forge(const struct end* sender) {
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t length = sizeof own;
  const int discover = IP_PMTUDISC_DO;
  CHECK(fd >= 0 && setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof discover) == 0);
  CHECK(bind(fd, (struct sockaddr*)&own, sizeof own) == 0);
  CHECK(getsockname(fd, (struct sockaddr*)&own, &length) == 0);
  const uint16_t port = ntohs(own.sin_port);

  uint8_t write[12 + 16 + kSize + 4];
  begin_frame(write, kWriteOnly, shared->qpn[0], kPsn + 1);
  store(write + 12, shared->address, 8);
  store(write + 20, shared->rkey, 4);
  store(write + 24, kSize, 4);
  memcpy(write + 28, "a forged", kSize);
  send_frame(fd, port, write, sizeof write);

  uint8_t answer[12 + 4 + 4];
  begin_frame(answer, kAcknowledge, sender->qp->qp_num, kPsn + 1);
  store(answer + 12, 0x1f000002, 4); /* an ACK without credits; MSN 2 */
  send_frame(fd, port, answer, sizeof answer);
  CHECK(close(fd) == 0);
}

static unsigned long long dropped(void) {
  FILE* file = fopen("/sys/class/infiniband/" DEVICE "/ports/1/hw_counters/drop_way", "r");
  unsigned long long count = 0;
  CHECK(file != NULL && fscanf(file, "%llu", &count) == 1);
  fclose(file);
  return count;
}

static void write_word(struct end* e, const char* word) {
  memcpy(e->memory, word, kSize);
  post_one(e, IBV_WR_RDMA_WRITE, 0, kSize);
  while (poll_some(e) == 0) pause_or_give_up();
}

static int injected(void) {
  const pid_t other = fork_ends();
  struct end e = open_end(other == 0 ? 1 : 0, kSize);
  if (other == 0) {
    write_word(&e, "the 1st.");
    forge(&e);
    while (dropped() == 0) pause_or_give_up(); /* the answer */
    shared->asked = 1;
    while (shared->answered == 0) pause_or_give_up();
    write_word(&e, "the 2nd.");
    shared->over = true;
    CHECK(dropped() == 1);
    exit(0);
  }
  while (dropped() == 0) pause_or_give_up(); /* the request */
  while (shared->asked == 0) pause_or_give_up();
  CHECK(memcmp(e.memory, "the 1st.", kSize) == 0);
  shared->answered = 1;
  while (!shared->over) pause_or_give_up();
  CHECK(memcmp(e.memory, "the 2nd.", kSize) == 0);
  CHECK(dropped() == 1);
  return join_ends(other);
}

static void connect_elsewhere(struct ibv_qp* qp, uint32_t peer, const char* address) {
  struct ibv_qp_attr attr = rtr_attr(qp->context, peer);
  CHECK(inet_pton(AF_INET, address, attr.ah_attr.grh.dgid.raw + 12) == 1);
  CHECK(ibv_modify_qp(qp, &attr, RTR_MASK) == 0);
  struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
                            .sq_psn = kPsn,
                            .timeout = 10,
                            .retry_cnt = 1,
                            .rnr_retry = 1,
                            .max_rd_atomic = 1};
  CHECK(ibv_modify_qp(qp, &rts,
                      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                          IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static int namesake(const char* address) {
  struct ibv_context* context = open_loopback();
  struct ibv_pd* pd = ibv_alloc_pd(context);
  struct ibv_cq* cq = ibv_create_cq(context, 8, NULL, NULL, 0);
  static uint8_t memory[2 * kSize] = "nothing.foreign!";
  struct ibv_mr* mr =
      ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  CHECK(pd != NULL && cq != NULL && mr != NULL);
  struct ibv_qp* sender = create_rc_qp(pd, cq);
  struct ibv_qp* own = create_rc_qp(pd, cq);
  to_init(sender);
  to_init(own);
  connect_elsewhere(sender, own->qp_num, address);
  to_rts(own, sender->qp_num);
  struct ibv_sge sge = {(uintptr_t)memory + kSize, kSize, mr->lkey};
  struct ibv_send_wr wr = {.sg_list = &sge,
                           .num_sge = 1,
                           .opcode = IBV_WR_RDMA_WRITE,
                           .send_flags = IBV_SEND_SIGNALED,
                           .wr.rdma = {(uintptr_t)memory, mr->rkey}};
  struct ibv_send_wr* bad = NULL;
  CHECK(ibv_post_send(sender, &wr, &bad) == 0);
  struct ibv_wc wc;
  int n = 0;
  while ((n = ibv_poll_cq(cq, 1, &wc)) == 0) usleep(1000);
  CHECK(n == 1 && wc.status == IBV_WC_RETRY_EXC_ERR);
  CHECK(memcmp(memory, "nothing.", kSize) == 0);
  printf("qp %u has the number of the peer's\n", own->qp_num);
  return 0;
}

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "injected") == 0) return injected();
  if (argc == 3 && strcmp(argv[1], "namesake") == 0) return namesake(argv[2]);
  fprintf(stderr, "usage: ways injected | ways namesake ADDRESS\n");
  return 2;
}
