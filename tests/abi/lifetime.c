/* Devices, contexts and processes that end early: the same device has the same address each
 * time, the list is one block for free(), a context takes its objects along, and a forked
 * child starts afresh beside a parent that goes on. */
#include <sys/wait.h>
#include <unistd.h>

#include "abi.h"

static void test_list(void) {
  int count = 0;
  struct ibv_device** first = ibv_get_device_list(&count);
  struct ibv_device** second = ibv_get_device_list(NULL);
  CHECK(count >= 1 && first[count] == NULL);
  for (int i = 0; i < count; ++i) CHECK(first[i] == second[i]);
  CHECK(ibv_get_device_guid(first[0]) != 0);
  CHECK(ibv_get_device_index(first[0]) == -1); /* it is none of the kernel's */
  ibv_free_device_list(first);
  free(second); /* as qperf does */
}

static void test_close_takes_everything_along(void) {
  for (int i = 0; i < 50; ++i) {
    struct pair p = connect_pair();
    CHECK(ibv_close_device(p.context) == 0);
    free(p.memory);
  }
}

static void send_and_receive(struct pair* p) {
  post_receive(p, 1, 2, 0, 64);
  struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
  struct ibv_send_wr* bad = NULL;
  CHECK(ibv_post_send(p->qp[0], &wr, &bad) == 0);
  for (int i = 0; i < 2; ++i) CHECK(next_completion(p->cq).status == IBV_WC_SUCCESS);
}

static void child(struct pair* inherited) {
  struct ibv_wc wc;
  struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
  struct ibv_send_wr* bad = NULL;
  CHECK(ibv_poll_cq(inherited->cq, 1, &wc) < 0);
  CHECK(ibv_post_send(inherited->qp[0], &wr, &bad) == EINVAL && bad == &wr);
  struct pair own = connect_pair();
  send_and_receive(&own);
  destroy_pair(&own);
  destroy_pair(inherited); /* releases nothing of the parent's */
}

static void test_fork(void) {
  struct pair p = connect_pair();
  send_and_receive(&p);
  const pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    child(&p);
    _exit(0);
  }
  send_and_receive(&p);
  int status = 0;
  CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  send_and_receive(&p);
  destroy_pair(&p);
}

int main(void) {
  test_list();
  test_close_takes_everything_along();
  test_fork();
  return 0;
}
