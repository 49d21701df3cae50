/* What a program sees of its port: the state now, and again after each asynchronous event.
 *
 *   port DEVICE          one line at the start, one for each event; ends when it is killed
 *
 * A line names the event, the port's state and MTU, and the GID table up to its last entry that
 * isn't empty ("-" is one that is), as ibv_query_port and ibv_query_gid tell them. ibv_query_gid_ex
 * and ibv_query_gid_table must agree with them. */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(condition)                                                          \
  do {                                                                           \
    if (!(condition)) {                                                          \
      printf("not so: %s (errno %d, %s)\n", #condition, errno, strerror(errno)); \
      exit(1);                                                                   \
    }                                                                            \
  } while (0)

enum { kMaxGids = 256 };

static struct ibv_context* open_device(const char* name) {
  struct ibv_device** list = ibv_get_device_list(NULL);
  MUST(list != NULL);
  struct ibv_context* context = NULL;
  for (struct ibv_device** d = list; *d != NULL && context == NULL; ++d) {
    if (strcmp(ibv_get_device_name(*d), name) == 0) context = ibv_open_device(*d);
  }
  MUST(context != NULL);
  ibv_free_device_list(list);
  return context;
}

static int is_empty(const union ibv_gid* gid) {
  static const union ibv_gid kEmpty;
  return memcmp(gid, &kEmpty, sizeof kEmpty) == 0;
}

static int entry_agrees(struct ibv_context* context, int index, const union ibv_gid* gid) {
  struct ibv_gid_entry entry;
  const int code = ibv_query_gid_ex(context, 1, (uint32_t)index, &entry, 0);
  if (is_empty(gid)) return code == ENODATA;
  return code == 0 && memcmp(&entry.gid, gid, sizeof *gid) == 0;
}

/* `empty` is how many empty entries are before it, not printed yet. */
static void print_gid(struct ibv_context* context, int index, int* empty) {
  union ibv_gid gid;
  int agrees = 0;
  /* It may change between two queries: a link-local address goes with its link. */
  for (int tries = 0; tries < 1000 && !agrees; ++tries) {
    MUST(ibv_query_gid(context, 1, index, &gid) == 0);
    agrees = entry_agrees(context, index, &gid);
  }
  MUST(agrees);
  if (is_empty(&gid)) {
    ++*empty;
    return;
  }
  for (; *empty > 0; --*empty) printf(" -");
  const int v4 = IN6_IS_ADDR_V4MAPPED((const struct in6_addr*)gid.raw);
  char text[INET6_ADDRSTRLEN];
  printf(" %s", inet_ntop(v4 ? AF_INET : AF_INET6, gid.raw + (v4 ? 12 : 0), text, sizeof text));
}

static void print_port(struct ibv_context* context, const char* event) {
  struct ibv_port_attr port;
  MUST(ibv_query_port(context, 1, &port) == 0);
  printf("%s: %s, mtu %d, gids", event, ibv_port_state_str(port.state), 128 << port.active_mtu);
  int empty = 0;
  for (int i = 0; i < port.gid_tbl_len; ++i) print_gid(context, i, &empty);
  printf("\n");

  struct ibv_gid_entry entries[kMaxGids];
  const ssize_t n = ibv_query_gid_table(context, entries, kMaxGids, 0);
  MUST(n >= 0 && n <= port.gid_tbl_len);
  for (ssize_t i = 0; i < n; ++i) MUST(!is_empty(&entries[i].gid));
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: port DEVICE\n");
    return 2;
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  struct ibv_context* context = open_device(argv[1]);
  print_port(context, "start");
  for (;;) {
    struct ibv_async_event event;
    MUST(ibv_get_async_event(context, &event) == 0);
    MUST(event.element.port_num == 1);
    print_port(context, ibv_event_type_str(event.event_type));
    ibv_ack_async_event(&event);
  }
}
