/* Many to one: sender processes fill the receive buffer of one process, over plain verbs.
 *
 *   incast [-d DEVICE] [-g GID_INDEX] [-n SENDERS] [-m MIB] [KIND SIZE]
 *
 * KIND is send, write or read: with read the one process asks and the others answer. Without KIND
 * and SIZE all kinds are run with 64 B, 4 KiB, 64 KiB and 1 MiB. Each is run with one sender and
 * with all; every byte that arrives is checked; a line says how the two compare. Exit status 0:
 * everything arrived.
 *
 * All processes keep the default receive buffer: see receive_buffers.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "receive_buffers.h"

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: not so: %s (errno %d, %s)\n", __FILE__, __LINE__, #condition, errno, \
              strerror(errno));                                                                    \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

enum { kMaxSenders = 64, kMaxDepth = 64, kPatience = 60 /* seconds */ };
enum kind { kSend, kWrite, kRead };
static const char* const kKindNames[] = {"send", "write", "read"};

struct load {
  enum kind kind;
  uint32_t size;     /* of a message */
  uint32_t depth;    /* messages under way on a connection, each with its own piece of memory */
  uint32_t messages; /* of a connection */
};

static const char* device_name = "vb_lo";
static int gid_index = -1; /* the first IPv4-mapped one */

/* ---- one end of a connection */

struct end {
  struct ibv_qp* qp;
  struct ibv_mr* mr;
  uint8_t* memory; /* `depth` messages */
  uint64_t remote_address;
  uint32_t rkey;
  uint32_t posted;
  uint32_t done;
};

/* What the two ends tell each other. */
struct introduction {
  union ibv_gid gid;
  uint32_t qpn;
  uint32_t rkey;
  uint64_t address;
};

static struct ibv_context* open_device(void) {
  int count = 0;
  struct ibv_device** list = ibv_get_device_list(&count);
  CHECK(list != NULL);
  struct ibv_context* context = NULL;
  for (int i = 0; i < count && context == NULL; ++i) {
    if (strcmp(ibv_get_device_name(list[i]), device_name) == 0) context = ibv_open_device(list[i]);
  }
  CHECK(context != NULL);
  ibv_free_device_list(list);
  return context;
}

static int choose_gid(struct ibv_context* context, union ibv_gid* gid) {
  static const uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  struct ibv_port_attr port;
  CHECK(ibv_query_port(context, 1, &port) == 0);
  for (int i = 0; i < port.gid_tbl_len; ++i) {
    CHECK(ibv_query_gid(context, 1, i, gid) == 0);
    if (gid_index < 0 ? memcmp(gid->raw, kMapped, sizeof kMapped) == 0 : i == gid_index) return i;
  }
  CHECK(!"a GID of this index, or an IPv4 one");
  return -1;
}

static struct end make_end(struct ibv_pd* pd, struct ibv_cq* cq, const struct load* load) {
  struct ibv_qp_init_attr init = {
      .send_cq = cq,
      .recv_cq = cq,
      .cap = {.max_send_wr = kMaxDepth,
              .max_recv_wr = kMaxDepth,
              .max_send_sge = 1,
              .max_recv_sge = 1},
      .qp_type = IBV_QPT_RC,
      .sq_sig_all = 1,
  };
  struct end e = {.qp = ibv_create_qp(pd, &init)};
  CHECK(e.qp != NULL);
  const size_t bytes = (size_t)load->size * load->depth;
  e.memory = calloc(1, bytes);
  CHECK(e.memory != NULL);
  e.mr = ibv_reg_mr(pd, e.memory, bytes,
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  CHECK(e.mr != NULL);
  return e;
}

static void connect_end(struct end* e, int socket) {
  struct introduction mine = {
      .qpn = e->qp->qp_num, .rkey = e->mr->rkey, .address = (uintptr_t)e->memory};
  const int sgid = choose_gid(e->qp->context, &mine.gid);
  struct introduction peer;
  CHECK(write(socket, &mine, sizeof mine) == sizeof mine);
  CHECK(read(socket, &peer, sizeof peer) == sizeof peer);
  e->remote_address = peer.address;
  e->rkey = peer.rkey;

  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                             .port_num = 1,
                             .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
  CHECK(ibv_modify_qp(e->qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
  struct ibv_port_attr port;
  CHECK(ibv_query_port(e->qp->context, 1, &port) == 0);
  attr = (struct ibv_qp_attr){
      .qp_state = IBV_QPS_RTR,
      .path_mtu = port.active_mtu,
      .dest_qp_num = peer.qpn,
      .max_dest_rd_atomic = 4,
      .min_rnr_timer = 1,
      .ah_attr = {.is_global = 1,
                  .port_num = 1,
                  .grh = {.dgid = peer.gid, .sgid_index = (uint8_t)sgid, .hop_limit = 64}},
  };
  CHECK(ibv_modify_qp(e->qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
  attr = (struct ibv_qp_attr){
      .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4};
  CHECK(ibv_modify_qp(e->qp, &attr,
                      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                          IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

/* ---- messages */

static uint8_t* piece(const struct end* e, const struct load* load, uint32_t number) {
  return e->memory + (size_t)(number % load->depth) * load->size;
}

/* A message names its sender and its number; with READ, which has no number, its place. */
static void fill(uint8_t* bytes, const struct load* load, uint32_t sender, uint32_t number) {
  const uint32_t name[2] = {sender, number};
  for (uint32_t i = 0; i < load->size; ++i) bytes[i] = (uint8_t)(i * 7 + i / 251 + sender);
  memcpy(bytes, name, sizeof name);
}

static void check_message(const struct end* e, const struct load* load, uint32_t sender,
                          uint32_t number) {
  static uint8_t* expected[kMaxSenders];
  const uint32_t name = load->kind == kRead ? number % load->depth : number;
  if (expected[sender] == NULL) {
    expected[sender] = malloc(load->size);
    CHECK(expected[sender] != NULL);
    fill(expected[sender], load, sender, name);
  }
  memcpy(expected[sender] + 4, &name, sizeof name);
  CHECK(memcmp(piece(e, load, number), expected[sender], load->size) == 0);
}

static void post_request(struct end* e, const struct load* load) {
  static const enum ibv_wr_opcode kOpcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};
  uint8_t* const bytes = piece(e, load, e->posted);
  struct ibv_sge sge = {(uintptr_t)bytes, load->size, e->mr->lkey};
  struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = kOpcodes[load->kind]};
  wr.wr.rdma.remote_addr = e->remote_address + (uint64_t)(bytes - e->memory);
  wr.wr.rdma.rkey = e->rkey;
  struct ibv_send_wr* bad = NULL;
  CHECK(ibv_post_send(e->qp, &wr, &bad) == 0);
  ++e->posted;
}

static void post_receive(const struct end* e, const struct load* load, uint32_t number) {
  struct ibv_sge sge = {(uintptr_t)piece(e, load, number), load->size, e->mr->lkey};
  struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1};
  struct ibv_recv_wr* bad = NULL;
  CHECK(ibv_post_recv(e->qp, &wr, &bad) == 0);
}

/* Asleep until there is a completion. */
static int next_completions(struct ibv_cq* cq, struct ibv_wc* wcs, int most) {
  for (;;) {
    const int n = ibv_poll_cq(cq, most, wcs);
    CHECK(n >= 0);
    for (int i = 0; i < n; ++i) {
      if (wcs[i].status != IBV_WC_SUCCESS) {
        fprintf(stderr, "incast: qp 0x%x: %s\n", wcs[i].qp_num, ibv_wc_status_str(wcs[i].status));
        exit(1);
      }
    }
    if (n > 0) return n;
    struct ibv_cq* which;
    void* context;
    CHECK(ibv_get_cq_event(cq->channel, &which, &context) == 0);
    ibv_ack_cq_events(which, 1);
    CHECK(ibv_req_notify_cq(cq, 0) == 0);
  }
}

static struct ibv_cq* make_cq(struct ibv_context* context, int entries) {
  struct ibv_comp_channel* channel = ibv_create_comp_channel(context);
  CHECK(channel != NULL);
  struct ibv_cq* cq = ibv_create_cq(context, entries, NULL, channel, 0);
  CHECK(cq != NULL && ibv_req_notify_cq(cq, 0) == 0);
  return cq;
}

/* ---- processes */

static void await(int socket, char what) {
  char got = 0;
  CHECK(read(socket, &got, 1) == 1 && got == what);
}

static void tell(int socket, char what) { CHECK(write(socket, &what, 1) == 1); }

/* One of the many. */
static void run_sender(int socket, const struct load* load, uint32_t sender) {
  alarm(kPatience);
  struct ibv_context* context = open_device();
  struct ibv_pd* pd = ibv_alloc_pd(context);
  CHECK(pd != NULL);
  struct ibv_cq* cq = make_cq(context, kMaxDepth);
  struct end e = make_end(pd, cq, load);
  for (uint32_t i = 0; i < load->depth; ++i) fill(piece(&e, load, i), load, sender, i);
  connect_end(&e, socket);
  tell(socket, 'r');
  await(socket, 'g');
  while (load->kind != kRead && e.done < load->messages) {
    for (; e.posted < load->messages && e.posted - e.done < load->depth;) {
      memcpy(piece(&e, load, e.posted) + 4, &e.posted, 4);
      post_request(&e, load);
    }
    struct ibv_wc wcs[16];
    e.done += (uint32_t)next_completions(cq, wcs, 16);
  }
  if (load->kind == kWrite) tell(socket, 'd');
  await(socket, 'e');
}

/* The one: receives, or asks. */
static void collect(struct end* ends, uint32_t senders, struct ibv_cq* cq,
                    const struct load* load) {
  uint32_t left = senders * load->messages;
  for (uint32_t s = 0; s < senders && load->kind == kRead; ++s) {
    while (ends[s].posted < load->depth && ends[s].posted < load->messages)
      post_request(&ends[s], load);
  }
  while (left > 0) {
    struct ibv_wc wcs[16];
    const int n = next_completions(cq, wcs, 16);
    left -= (uint32_t)n;
    for (int i = 0; i < n; ++i) {
      uint32_t s = 0;
      while (s < senders && ends[s].qp->qp_num != wcs[i].qp_num) ++s;
      CHECK(s < senders);
      struct end* const e = &ends[s];
      check_message(e, load, s, e->done);
      ++e->done;
      if (load->kind == kSend) {
        post_receive(e, load, e->done - 1);
      } else if (e->posted < load->messages) {
        memset(piece(e, load, e->posted), 0, load->size);
        post_request(e, load);
      }
    }
  }
}

/* WRITE: nothing tells the one process, so the senders do. The newest of each place is there. */
static void await_writes(struct end* ends, const int* sockets, uint32_t senders,
                         const struct load* load) {
  for (uint32_t s = 0; s < senders; ++s) await(sockets[s], 'd');
  for (uint32_t s = 0; s < senders; ++s) {
    const uint32_t oldest = load->messages > load->depth ? load->messages - load->depth : 0;
    for (uint32_t i = oldest; i < load->messages; ++i) check_message(&ends[s], load, s, i);
  }
}

static double seconds_now(void) {
  struct timespec t;
  CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The whole of it in this process and `senders` more. Returns seconds. */
static double run_receiver(const struct load* load, uint32_t senders) {
  int sockets[kMaxSenders];
  pid_t children[kMaxSenders];
  for (uint32_t s = 0; s < senders; ++s) { /* before the device is open */
    int both[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, both) == 0);
    children[s] = fork();
    CHECK(children[s] >= 0);
    if (children[s] == 0) {
      for (uint32_t i = 0; i < s; ++i) close(sockets[i]);
      close(both[0]);
      run_sender(both[1], load, s);
      exit(0);
    }
    close(both[1]);
    sockets[s] = both[0];
  }
  alarm(kPatience);

  struct ibv_context* context = open_device();
  struct ibv_pd* pd = ibv_alloc_pd(context);
  CHECK(pd != NULL);
  struct ibv_cq* cq = make_cq(context, (int)senders * kMaxDepth);
  struct end ends[kMaxSenders];
  for (uint32_t s = 0; s < senders; ++s) {
    ends[s] = make_end(pd, cq, load);
    connect_end(&ends[s], sockets[s]);
    for (uint32_t i = 0; load->kind == kSend && i < load->depth; ++i)
      post_receive(&ends[s], load, i);
    await(sockets[s], 'r');
  }
  const double start = seconds_now();
  for (uint32_t s = 0; s < senders; ++s) tell(sockets[s], 'g');
  if (load->kind == kWrite) {
    await_writes(ends, sockets, senders, load);
  } else {
    collect(ends, senders, cq, load);
  }
  const double took = seconds_now() - start;
  for (uint32_t s = 0; s < senders; ++s) tell(sockets[s], 'e');
  for (uint32_t s = 0; s < senders; ++s) {
    int status = 0;
    CHECK(waitpid(children[s], &status, 0) == children[s] && status == 0);
  }
  return took;
}

/* In a process of its own, so that each run begins with nothing. */
static double timed(const struct load* load, uint32_t senders) {
  int result[2];
  CHECK(pipe(result) == 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    const double took = run_receiver(load, senders);
    CHECK(write(result[1], &took, sizeof took) == sizeof took);
    exit(0);
  }
  close(result[1]);
  int status = 0;
  double took = 0;
  const ssize_t got = read(result[0], &took, sizeof took);
  close(result[0]);
  CHECK(waitpid(child, &status, 0) == child);
  if (status != 0 || got != sizeof took) {
    fprintf(stderr, "incast: %s of %u bytes from %u senders failed\n", kKindNames[load->kind],
            load->size, senders);
    exit(1);
  }
  return took;
}

/* Datagrams that found a full receive buffer, in this network namespace. */
static long overflows(void) {
  FILE* table = fopen("/proc/net/snmp", "r");
  CHECK(table != NULL);
  char line[512];
  long errors = 0;
  while (fgets(line, sizeof line, table) != NULL)
    (void)sscanf(line, "Udp: %*d %*d %*d %*d %ld", &errors);
  fclose(table);
  return errors;
}

/* Processor time of everything that has ended. */
static double cpu_seconds(void) {
  struct rusage r;
  CHECK(getrusage(RUSAGE_CHILDREN, &r) == 0);
  return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
         1e-6 * (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

static void compare(enum kind kind, uint32_t size, uint32_t senders, uint32_t mib) {
  const uint64_t total = (uint64_t)mib << 20;
  uint32_t all = (uint32_t)(total / size);
  if (all > 32768) all = 32768;
  if (all < 2 * senders) all = 2 * senders;
  struct load load = {kind, size, (uint32_t)(8u << 20) / 16 / size, all};
  if (load.depth > kMaxDepth) load.depth = kMaxDepth;
  if (load.depth < 2) load.depth = 2;
  const double bytes = (double)all * size;
  const double idle = cpu_seconds();
  const double one = bytes / timed(&load, 1) / 1e6;
  const double cpu_one = cpu_seconds() - idle;
  load.messages = all / senders;
  const long before = overflows();
  const double many = bytes / timed(&load, senders) / 1e6;
  const double cpu_many = cpu_seconds() - idle - cpu_one;
  printf(
      "%-5s %8u B: 1 sender %7.1f MB/s, %u senders %7.1f MB/s, ratio %.2f; CPU ratio %.2f; "
      "overflows %ld\n",
      kKindNames[kind], size, one, senders, many, many / one, cpu_many / cpu_one,
      overflows() - before);
  fflush(stdout);
}

static void usage(void) {
  fprintf(stderr,
          "usage: incast [-d DEVICE] [-g GID_INDEX] [-n SENDERS] [-m MIB] [send|write|read SIZE]\n"
          "  1 to %d senders; SIZE of 8 bytes or more; MIB moved in each run\n",
          kMaxSenders);
  exit(2);
}

int main(int argc, char** argv) {
  uint32_t senders = 16;
  uint32_t mib = 64;
  int option;
  while ((option = getopt(argc, argv, "d:g:n:m:")) != -1) {
    switch (option) {
      case 'd':
        device_name = optarg;
        break;
      case 'g':
        gid_index = atoi(optarg);
        break;
      case 'n':
        senders = (uint32_t)atoi(optarg);
        break;
      case 'm':
        mib = (uint32_t)atoi(optarg);
        break;
      default:
        usage();
    }
  }
  if (senders < 1 || senders > kMaxSenders || mib < 1 || mib > 4096) usage();
  CHECK(refuse_receive_buffers());
  if (optind + 2 == argc) {
    const uint32_t size = (uint32_t)atoi(argv[optind + 1]);
    if (size < 8 || size > 64u << 20) usage();
    for (int k = kSend; k <= kRead; ++k) {
      if (strcmp(argv[optind], kKindNames[k]) != 0) continue;
      compare((enum kind)k, size, senders, mib);
      return 0;
    }
    usage();
  }
  if (optind != argc) usage();
  static const uint32_t kSizes[] = {64, 4096, 65536, 1 << 20};
  for (int k = kSend; k <= kRead; ++k) {
    for (size_t i = 0; i < sizeof kSizes / sizeof *kSizes; ++i)
      compare((enum kind)k, kSizes[i], senders, mib);
  }
  return 0;
}
