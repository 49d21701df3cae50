/* Messages of every shape, each compared byte by byte.
 *
 *   shapes apart      two processes
 *   shapes together   two queue pairs of one process
 *   shapes itself     one queue pair, connected to itself
 *   shapes huge       two processes, messages of 2 GiB, the longest there are
 *
 * SENDs, WRITEs, READs from and to no, one and 32 pieces of odd lengths at odd addresses, empty
 * ones among them. Memory that no piece names keeps its bytes. Exit status 77: not enough memory.
 */
#define _GNU_SOURCE
#include <sched.h>

#include "two_ends.h"

enum {
  kSges = 32,
  kSpace = 4 << 20,
  kUntouched = 0xcc,
  kHugeBits = 31,
  kPeriod = 4096 * 8191, /* of the source of a huge message: a prime number of pages */
};

struct shape {
  struct {
    uint64_t offset;
    uint32_t length;
  } piece[kSges];
  int pieces;
};

struct side {
  struct ibv_cq *send_cq, *receive_cq;
  struct ibv_qp* qp;
  struct ibv_mr* mr;
};

/* How a receive gets to the side that receives. */
struct request {
  struct shape shape;
  _Atomic uint64_t received; /* receives that have ended, in all */
  _Atomic uint32_t bytes;    /* of the last one */
};

static struct request* request;
static uint8_t *source, *destination, *expected;
static size_t source_size = kSpace, destination_size = kSpace;
static bool apart;
static struct side requester, responder;

/* ---------------------------------------------------------------- set-up */

static void* share(size_t size) {
  void* p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(p != MAP_FAILED);
  return p;
}

static struct ibv_qp* create_wide_qp(struct ibv_pd* pd, struct side* s) {
  s->send_cq = ibv_create_cq(pd->context, 4, NULL, NULL, 0);
  s->receive_cq = ibv_create_cq(pd->context, 4, NULL, NULL, 0);
  CHECK(s->send_cq != NULL && s->receive_cq != NULL);
  struct ibv_qp_init_attr init = {
      .send_cq = s->send_cq,
      .recv_cq = s->receive_cq,
      .cap = {2, 2, kSges, kSges, 0},
      .qp_type = IBV_QPT_RC,
  };
  s->qp = ibv_create_qp(pd, &init);
  CHECK(s->qp != NULL);
  to_init(s->qp);
  return s->qp;
}

static struct ibv_mr* register_all(struct ibv_pd* pd, uint8_t* memory, size_t size) {
  const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  struct ibv_mr* mr = ibv_reg_mr(pd, memory, size, access);
  CHECK(mr != NULL);
  return mr;
}

/* Both memories are shared, so each process may register either. */
struct keys {
  struct ibv_mr *source, *destination;
};
static struct keys own;
static struct { _Atomic uint32_t source, destination; /* of the responder */ } * remote;

static void open_side(struct side* s, int which) {
  struct ibv_pd* pd = ibv_alloc_pd(open_loopback());
  CHECK(pd != NULL);
  own.source = register_all(pd, source, source_size);
  own.destination = register_all(pd, destination, destination_size);
  if (which == 0) {
    remote->source = own.source->rkey;
    remote->destination = own.destination->rkey;
  }
  create_wide_qp(pd, s);
  shared->qpn[which] = s->qp->qp_num;
  while (shared->qpn[1 - which] == 0) pause_or_give_up();
  connect_to(s->qp, shared->qpn[1 - which]);
  ++shared->ready;
  while (shared->ready != 2) pause_or_give_up();
}

static void open_one_process(bool itself) {
  struct ibv_pd* pd = ibv_alloc_pd(open_loopback());
  CHECK(pd != NULL);
  own.source = register_all(pd, source, source_size);
  own.destination = register_all(pd, destination, destination_size);
  remote->source = own.source->rkey;
  remote->destination = own.destination->rkey;
  create_wide_qp(pd, &requester);
  if (itself) {
    responder = requester;
  } else {
    create_wide_qp(pd, &responder);
    connect_to(responder.qp, requester.qp->qp_num);
  }
  connect_to(requester.qp, responder.qp->qp_num);
}

/* ---------------------------------------------------------------- receiving */

static void fill_sges(struct ibv_sge* sges, const struct shape* s, uint8_t* memory, uint32_t lkey) {
  for (int i = 0; i < s->pieces; ++i) {
    sges[i] = (struct ibv_sge){(uintptr_t)memory + s->piece[i].offset, s->piece[i].length, lkey};
  }
}

static void post_the_receive(struct side* s) {
  struct ibv_sge sges[kSges];
  fill_sges(sges, &request->shape, destination, own.destination->lkey);
  struct ibv_recv_wr* bad = NULL;
  struct ibv_recv_wr wr = {.sg_list = sges, .num_sge = request->shape.pieces};
  CHECK(ibv_post_recv(s->qp, &wr, &bad) == 0);
}

static void poll_receives(struct side* s) {
  struct ibv_wc wc;
  const int n = ibv_poll_cq(s->receive_cq, 1, &wc);
  CHECK(n >= 0);
  if (n == 0) return;
  CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV);
  request->bytes = wc.byte_len;
  ++request->received;
}

static void serve(void) {
  open_side(&responder, 0);
  while (!shared->over) {
    if (shared->asked != shared->answered) {
      post_the_receive(&responder);
      ++shared->answered;
    }
    poll_receives(&responder);
    CHECK(time(NULL) < limit);
  }
}

static void ask_for_receive(const struct shape* s) {
  request->shape = *s;
  if (!apart) {
    post_the_receive(&responder);
    return;
  }
  ++shared->asked;
  while (shared->answered != shared->asked) pause_or_give_up();
}

static void wait_for_receive(uint64_t number, uint64_t bytes) {
  while (request->received < number) {
    if (!apart) poll_receives(&responder);
    CHECK(time(NULL) < limit);
  }
  CHECK(request->bytes == (uint32_t)bytes);
}

/* ---------------------------------------------------------------- messages */

static struct shape whole(uint64_t offset, uint32_t length) {
  return (struct shape){.piece = {{offset, length}}, .pieces = 1};
}

/* `total` bytes in so many pieces, with gaps between them. Some pieces are empty. */
static struct shape cut(uint32_t total, int pieces) {
  struct shape s = {.pieces = pieces};
  uint64_t offset = 1 + (uint64_t)random() % 4096;
  uint32_t left = total;
  for (int i = 0; i < pieces; ++i) {
    uint32_t length = i % 7 == 3 ? 0 : left / (uint32_t)(pieces - i);
    if (length > 3) length = length - length / 3 + (uint32_t)random() % (length / 2 + 1);
    if (length > left || i == pieces - 1) length = left;
    s.piece[i].offset = offset;
    s.piece[i].length = length;
    left -= length;
    offset += length + 1 + (uint64_t)random() % 5;
  }
  return s;
}

static enum ibv_wc_opcode completion_of(enum ibv_wr_opcode opcode) {
  return opcode == IBV_WR_SEND         ? IBV_WC_SEND
         : opcode == IBV_WR_RDMA_WRITE ? IBV_WC_RDMA_WRITE
                                       : IBV_WC_RDMA_READ;
}

static void transfer(enum ibv_wr_opcode opcode, const struct shape* from, const struct shape* to) {
  static uint64_t receives;
  const bool reads = opcode == IBV_WR_RDMA_READ;
  uint64_t bytes = 0;
  for (int i = 0; i < from->pieces; ++i) bytes += from->piece[i].length;
  if (opcode == IBV_WR_SEND) ask_for_receive(to);
  struct ibv_sge sges[kSges];
  if (reads) {
    fill_sges(sges, to, destination, own.destination->lkey);
  } else {
    fill_sges(sges, from, source, own.source->lkey);
  }
  struct ibv_send_wr* bad = NULL;
  struct ibv_send_wr wr = {.sg_list = sges,
                           .num_sge = reads ? to->pieces : from->pieces,
                           .opcode = opcode,
                           .send_flags = IBV_SEND_SIGNALED};
  wr.wr.rdma.remote_addr = reads ? (uintptr_t)source + from->piece[0].offset
                                 : (uintptr_t)destination + to->piece[0].offset;
  wr.wr.rdma.rkey = reads ? remote->source : remote->destination;
  CHECK(ibv_post_send(requester.qp, &wr, &bad) == 0);
  struct ibv_wc wc;
  int n = 0;
  while ((n = ibv_poll_cq(requester.send_cq, 1, &wc)) == 0) CHECK(time(NULL) < limit);
  CHECK(n == 1 && wc.status == IBV_WC_SUCCESS && wc.opcode == completion_of(opcode));
  if (opcode == IBV_WR_SEND) wait_for_receive(++receives, bytes);
}

/* The message, byte by byte, from the pieces of the one to those of the other. */
static void expect(const struct shape* from, const struct shape* to) {
  memset(expected, kUntouched, kSpace);
  int at = 0;
  uint32_t done = 0;
  for (int i = 0; i < from->pieces; ++i) {
    for (uint32_t b = 0; b < from->piece[i].length; ++b) {
      while (done == to->piece[at].length) {
        ++at;
        done = 0;
      }
      expected[to->piece[at].offset + done++] = source[from->piece[i].offset + b];
    }
  }
}

static void try_shape(enum ibv_wr_opcode opcode, uint32_t total, int from_pieces, int to_pieces) {
  const struct shape from = cut(total, opcode == IBV_WR_RDMA_READ ? 1 : from_pieces);
  const struct shape to = cut(total, opcode == IBV_WR_RDMA_WRITE ? 1 : to_pieces);
  expect(&from, &to);
  memset(destination, kUntouched, kSpace);
  transfer(opcode, &from, &to);
  if (memcmp(destination, expected, kSpace) == 0) return;
  size_t i = 0;
  while (destination[i] == expected[i]) ++i;
  fprintf(stderr, "opcode %d, %u bytes from %d to %d pieces: byte %zu of the memory is wrong\n",
          opcode, total, from.pieces, to.pieces, i);
  exit(1);
}

static int try_all(void) {
  static const uint32_t kTotals[] = {0,    1,    31,    32,    33,     1000,         4095,
                                     4096, 4097, 65536, 99991, 400000, (1 << 20) + 3};
  static const int kPieces[] = {0, 1, 2, kSges};
  static const enum ibv_wr_opcode kOpcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};
  int tried = 0;
  for (size_t i = 0; i < kSpace; ++i) source[i] = (uint8_t)random();
  for (size_t o = 0; o < 3; ++o) {
    for (size_t t = 0; t < sizeof kTotals / sizeof *kTotals; ++t) {
      for (int pieces = 0; pieces < 16; ++pieces) {
        const int from = kPieces[pieces % 4], to = kPieces[pieces / 4];
        if (kTotals[t] > 0 && (from == 0 || to == 0)) continue;
        try_shape(kOpcodes[o], kTotals[t], from, to);
        ++tried;
      }
    }
  }
  return tried;
}

/* ---------------------------------------------------------------- 2 GiB */

/* The same pages again and again: memory for one period only. */
static uint8_t* repeat_memory(size_t size) {
  const int file = memfd_create("period", 0);
  CHECK(file >= 0 && ftruncate(file, kPeriod) == 0);
  uint8_t* memory = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(memory != MAP_FAILED);
  for (size_t at = 0; at < size; at += kPeriod) {
    const size_t length = size - at < kPeriod ? size - at : kPeriod;
    CHECK(mmap(memory + at, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) !=
          MAP_FAILED);
  }
  for (size_t i = 0; i < kPeriod; ++i) memory[i] = (uint8_t)(random() % 255 + 1);
  return memory;
}

static void need_memory(unsigned long long kib) {
  FILE* f = fopen("/proc/meminfo", "r");
  CHECK(f != NULL);
  char line[128];
  unsigned long long available = 0;
  while (fgets(line, sizeof line, f) != NULL) {
    if (sscanf(line, "MemAvailable: %llu", &available) == 1) break;
  }
  fclose(f);
  if (available >= kib) return;
  printf("%llu MiB of memory are available, and %llu are needed\n", available >> 10, kib >> 10);
  exit(77);
}

static int try_huge(void) {
  const uint64_t length = 1ull << kHugeBits;
  static const enum ibv_wr_opcode kOpcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND};
  for (int o = 0; o < 3; ++o) {
    memset(destination, 0, length);
    const struct shape all = whole(0, (uint32_t)length);
    transfer(kOpcodes[o], &all, &all);
    for (size_t at = 0; at < length; at += kPeriod) {
      const size_t bytes = length - at < kPeriod ? length - at : kPeriod;
      CHECK(memcmp(source + at, destination + at, bytes) == 0);
    }
  }
  return 3;
}

/* ---------------------------------------------------------------- */

int main(int argc, char** argv) {
  if (argc != 2) return fprintf(stderr, "shapes apart|together|itself|huge\n"), 2;
  const bool huge = strcmp(argv[1], "huge") == 0;
  apart = huge || strcmp(argv[1], "apart") == 0;
  if (huge) {
    need_memory(3ull << 20);
    source_size = destination_size = 1ull << kHugeBits;
  }
  source = huge ? repeat_memory(source_size) : share(source_size);
  destination = share(destination_size);
  expected = malloc(kSpace);
  request = share(sizeof *request);
  remote = share(sizeof *remote);
  pid_t other = 0;
  if (apart) {
    other = fork_ends();
    if (huge) limit += 300;
    if (other == 0) {
      serve();
      return 0;
    }
    open_side(&requester, 1);
  } else {
    limit = time(NULL) + kPatience;
    open_one_process(strcmp(argv[1], "itself") == 0);
  }
  const int tried = huge ? try_huge() : try_all();
  printf("%d messages, every byte in its place\n", tried);
  if (!apart) return 0;
  shared->over = true;
  return join_ends(other);
}
