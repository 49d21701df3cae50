/* What a program finds in its device's counters, before, between and after its own traffic.
 *
 *   counters             "PATH BEFORE BETWEEN AFTER" for each file below ports/1/{,hw_}counters
 *
 * Before: the device is open, nothing was sent. Then sixteen WRITEs of 64 KiB go to a queue pair of
 * the same process: between. Then the queue pairs are destroyed: after. */
#include <dirent.h>

#include "../../abi/abi.h"

#define PORT "/sys/class/infiniband/" DEVICE "/ports/1/"

enum { kMaxCounters = 128, kReadings = 3, kWrites = 16 };

struct counter {
  char path[300];
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

static void read_counter(struct counter* c, int reading) {
  char path[sizeof PORT + sizeof c->path];
  snprintf(path, sizeof path, PORT "%s", c->path);
  FILE* file = fopen(path, "r");
  CHECK(file != NULL);
  CHECK(fscanf(file, "%llu", &c->readings[reading]) == 1);
  fclose(file);
}

static void read_all(struct counter* counters, int count, int reading) {
  for (int i = 0; i < count; ++i) read_counter(&counters[i], reading);
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

int main(void) {
  static struct counter counters[kMaxCounters];
  int count = find_counters("counters", counters);
  count += find_counters("hw_counters", counters + count);

  struct pair p = connect_pair();
  read_all(counters, count, 0);
  write_all(&p);
  read_all(counters, count, 1);
  destroy_pair(&p);
  read_all(counters, count, 2);

  for (int i = 0; i < count; ++i) {
    const unsigned long long* r = counters[i].readings;
    printf("%s %llu %llu %llu\n", counters[i].path, r[0], r[1], r[2]);
  }
  return 0;
}
