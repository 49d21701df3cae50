#include <infiniband/verbs.h>

/* IBVERBS_1.40 */
int ibv_of_the_future(struct ibv_context* context);
/* IBVERBS_PRIVATE_100 */
int ibv_query_gid_type(struct ibv_context* context, uint8_t port, unsigned index, int* type);
