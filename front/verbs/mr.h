#pragma once

#include <infiniband/verbs.h>

#include "base/result.h"
#include "host/nic.h"

namespace verbena::front {

struct Mr : ibv_mr {
  host::Nic* nic = nullptr;
  Key key;
};

Status destroy(Mr* mr);

}  // namespace verbena::front
