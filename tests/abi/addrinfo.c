/* rdma_resolve_addrinfo(): librdmacm resolves the name itself and sends the answer through the
 * event channel, as it does an event of the program's own (rdma_write_cm_event). */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include <dlfcn.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include "abi.h"

enum { kSkipped = 77, kAddrinfoResolved = 16, kUser = 18 };

typedef int (*resolve_function)(struct rdma_cm_id*, const char* node, const char* service,
                                const struct rdma_addrinfo* hints);
typedef int (*query_function)(struct rdma_cm_id*, struct rdma_addrinfo**);
typedef int (*write_function)(struct rdma_cm_id*, int event, int status, uint64_t argument);

int main(void) {
  const resolve_function resolve = (resolve_function)dlsym(RTLD_DEFAULT, "rdma_resolve_addrinfo");
  const query_function query = (query_function)dlsym(RTLD_DEFAULT, "rdma_query_addrinfo");
  const write_function write_event = (write_function)dlsym(RTLD_DEFAULT, "rdma_write_cm_event");
  if (resolve == NULL) {
    fprintf(stderr, "skipped: the system's librdmacm has no rdma_resolve_addrinfo()\n");
    return kSkipped;
  }
  CHECK(query != NULL && write_event != NULL);
  struct rdma_event_channel* channel = rdma_create_event_channel();
  struct rdma_cm_id* id;
  CHECK(channel != NULL && rdma_create_id(channel, &id, &id, RDMA_PS_TCP) == 0);

  CHECK(resolve(id, "127.0.0.1", "7471", NULL) == 0);
  struct rdma_cm_event* event;
  CHECK(rdma_get_cm_event(channel, &event) == 0);
  CHECK((int)event->event == kAddrinfoResolved && event->id == id && event->status == 0);
  CHECK(rdma_ack_cm_event(event) == 0);
  struct rdma_addrinfo* info = NULL;
  CHECK(query(id, &info) == 0 && info != NULL);
  const struct sockaddr_in* to = (const struct sockaddr_in*)info->ai_dst_addr;
  CHECK(to != NULL && to->sin_family == AF_INET && to->sin_port == htons(7471));
  CHECK(to->sin_addr.s_addr == htonl(INADDR_LOOPBACK));
  rdma_freeaddrinfo(info);

  CHECK(write_event(id, kUser, 3, 0x1122334455667788) == 0);
  CHECK(rdma_get_cm_event(channel, &event) == 0);
  uint64_t argument;
  memcpy(&argument, &event->param, sizeof argument);
  CHECK((int)event->event == kUser && event->status == 3 && argument == 0x1122334455667788);
  CHECK(rdma_ack_cm_event(event) == 0);
  errno = 0;
  CHECK(write_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, 0) != 0 && errno == EINVAL);

  CHECK(rdma_destroy_id(id) == 0);
  rdma_destroy_event_channel(channel);
  return 0;
}
