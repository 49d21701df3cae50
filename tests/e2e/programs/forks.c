/* Opens vb_lo and makes a protection domain, and so does its child after a fork(). */

#include <infiniband/verbs.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "must.h"

static void open_device(void) {
  struct ibv_device** list = ibv_get_device_list(NULL);
  MUST(list != NULL);
  struct ibv_device** device = list;
  while (*device != NULL && strcmp(ibv_get_device_name(*device), "vb_lo") != 0) ++device;
  MUST(*device != NULL);
  struct ibv_context* context = ibv_open_device(*device);
  MUST(context != NULL && ibv_alloc_pd(context) != NULL);
  ibv_free_device_list(list);
}

int main(void) {
  open_device();
  const pid_t child = fork();
  MUST(child >= 0);
  if (child == 0) {
    open_device();
    _exit(0);
  }
  int status = 0;
  MUST(waitpid(child, &status, 0) == child && status == 0);
  return 0;
}
