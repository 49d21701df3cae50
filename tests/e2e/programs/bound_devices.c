/* The device that rdma_cm finds for each address:
 *
 *   bound_devices ADDRESS…
 *
 * prints "ADDRESS DEVICE" for each. */
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

#include "must.h"

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    struct sockaddr_in at = {.sin_family = AF_INET};
    MUST(inet_pton(AF_INET, argv[i], &at.sin_addr) == 1);
    struct rdma_cm_id* id;
    MUST(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0);
    MUST(rdma_bind_addr(id, (struct sockaddr*)&at) == 0);
    MUST(id->verbs != NULL);
    printf("%s %s\n", argv[i], ibv_get_device_name(id->verbs->device));
    MUST(rdma_destroy_id(id) == 0);
  }
  return 0;
}
