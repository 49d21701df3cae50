#pragma once

// Parent domains and thread domains: what a program tells about its threads and its memory. Our
// queues are locked whatever it says, and lie in memory of our own.

#include <infiniband/verbs.h>

#include "base/result.h"
#include "front/verbs/pd.h"

namespace verbena::front {

struct Td : ibv_td {
  unsigned parents = 0;  // under lock_lists()
};

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr);
int dealloc_td(ibv_td* td);
/// EBUSY while a parent domain has it.
Status destroy(Td* td);

ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr);
/// EBUSY while anything was made with it.
Status destroy_parent(Pd* pd);

}  // namespace verbena::front
