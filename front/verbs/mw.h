#pragma once

#include <infiniband/verbs.h>

#include "base/result.h"
#include "host/nic.h"

namespace verbena::front {

struct Mw : ibv_mw {
  host::Nic* nic = nullptr;
  Key key;  // its first; the upper 24 bits stay
};

/// Only of a window of ours.
[[nodiscard]] inline Mw& mw_of(ibv_mw* mw) { return static_cast<Mw&>(*mw); }

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type);
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) noexcept;
int dealloc_mw(ibv_mw* mw);

Status destroy(Mw* mw);

}  // namespace verbena::front
