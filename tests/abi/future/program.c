/* A program that was linked with a libibverbs of the future starts, finds the new verbs in that
 * library, and the old ones, at whatever version, in ours. */
#include "../abi.h"
#include "verbs.h"

int main(void) {
  struct ibv_context* context = open_loopback();
  CHECK(ibv_of_the_future(context) == 42);
  int type = -1;
  CHECK(ibv_query_gid_type(context, 1, 0, &type) == 0 && type == 1); /* RoCE v2 */
  CHECK(ibv_close_device(context) == 0);
  return 0;
}
