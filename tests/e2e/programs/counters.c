/* What a program finds in its device's counters, before, between and after its own traffic.
 *
 *   counters             "PATH BEFORE BETWEEN AFTER" for each file below ports/1/{,hw_}counters
 *
 * Before: the device is open, nothing was sent. Then sixteen WRITEs of 64 KiB go to a queue pair of
 * the same process: between. Then the queue pairs are destroyed: after. Each file is opened once
 * and read again, with read() and with pread(); at the end one opened anew says the same. */
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "../../abi/abi.h"

#define PORT "/sys/class/infiniband/" DEVICE "/ports/1/"

enum { kMaxCounters = 128, kReadings = 3, kWrites = 16 };

struct counter {
  char path[300];
  int fd;
  unsigned long long readings[kReadings];
};

static int find_counters(const char* folder, struct counter* to) {
  char path[64];
  snprintf(path, sizeof path, PORT "%s", folder);
  DIR* listing = opendir(path);
  CHECK(listing != NULL);
  int count = 0;
  for (struct dirent* e; (e = readdir(listing)) != NULL;) {
    if (e->d_name[0] == '.') continue;
    CHECK(e->d_type == DT_REG && count < kMaxCounters / 2);
    snprintf(to[count++].path, sizeof to->path, "%s/%s", folder, e->d_name);
  }
  CHECK(closedir(listing) == 0);
  return count;
}

static void open_counter(struct counter* c) {
  char path[sizeof PORT + sizeof c->path];
  snprintf(path, sizeof path, PORT "%s", c->path);
  c->fd = open(path, O_RDONLY);
  CHECK(c->fd >= 0);
}

static unsigned long long number(const char* text, ssize_t size) {
  CHECK(size > 1 && text[size - 1] == '\n');
  return strtoull(text, NULL, 10);
}

static unsigned long long read_from_start(const struct counter* c) {
  char text[32] = "";
  const unsigned long long value = number(text, read(c->fd, text, sizeof text - 1));
  CHECK(read(c->fd, text, sizeof text - 1) == 0);
  CHECK(lseek(c->fd, 0, SEEK_SET) == 0);
  return value;
}

static unsigned long long read_in_place(const struct counter* c) {
  char text[32] = "";
  return number(text, pread(c->fd, text, sizeof text - 1, 0));
}

static unsigned long long read_anew(const struct counter* c) {
  struct counter again = *c;
  open_counter(&again);
  const unsigned long long value = read_in_place(&again);
  CHECK(close(again.fd) == 0);
  return value;
}

typedef unsigned long long reader(const struct counter* c);

static void read_all(struct counter* counters, int count, int reading, reader* read_one) {
  for (int i = 0; i < count; ++i) counters[i].readings[reading] = read_one(&counters[i]);
}

static void write_all(const struct pair* p) {
  for (int i = 0; i < kWrites; ++i) {
    struct ibv_sge sge = sge_of(p, 0, kMemory);
    struct ibv_send_wr wr = {
        .wr_id = (uint64_t)i, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
    wr.wr.rdma.remote_addr = (uintptr_t)p->memory;
    wr.wr.rdma.rkey = p->mr->rkey;
    CHECK(send_and_wait(p->cq, p->qp[0], wr) == IBV_WC_SUCCESS);
  }
}

/* Read in place and anew it has the same value, once nothing is on its way any more: what the
 * network delayed or was sent twice may still arrive after its queue pair is gone. */
static int agrees(struct counter* c) {
  for (int i = 0; i < 1000; ++i) {
    if (read_anew(c) == c->readings[2]) return 1;
    c->readings[2] = read_in_place(c);
  }
  return 0;
}

int main(void) {
  static struct counter counters[kMaxCounters];
  int count = find_counters("counters", counters);
  count += find_counters("hw_counters", counters + count);

  struct pair p = connect_pair();
  for (int i = 0; i < count; ++i) open_counter(&counters[i]);
  read_all(counters, count, 0, read_from_start);
  write_all(&p);
  read_all(counters, count, 1, read_from_start);
  destroy_pair(&p);
  read_all(counters, count, 2, read_in_place);
  for (int i = 0; i < count; ++i) CHECK(agrees(&counters[i]));

  for (int i = 0; i < count; ++i) {
    const unsigned long long* r = counters[i].readings;
    printf("%s %llu %llu %llu\n", counters[i].path, r[0], r[1], r[2]);
  }
  return 0;
}
