/* A libibverbs of the future: it has a verb that nobody knows today, at a node that doesn't exist
 * yet. Today's verbs must come from the library before it, so these end the program. */
#include "verbs.h"

#include <stdlib.h>

int ibv_of_the_future(struct ibv_context* context) { return context != 0 ? 42 : -1; }

int ibv_query_gid_type(struct ibv_context* context, uint8_t port, unsigned index, int* type) {
  (void)context, (void)port, (void)index, (void)type;
  abort();
}

struct ibv_device** ibv_get_device_list(int* count) {
  (void)count;
  abort();
}

void ibv_free_device_list(struct ibv_device** list) {
  (void)list;
  abort();
}

const char* ibv_get_device_name(struct ibv_device* device) {
  (void)device;
  abort();
}

struct ibv_context* ibv_open_device(struct ibv_device* device) {
  (void)device;
  abort();
}

int ibv_close_device(struct ibv_context* context) {
  (void)context;
  abort();
}
