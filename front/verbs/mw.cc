#include "front/verbs/mw.h"

#include <fmt/format.h>

#include <memory>

#include "front/verbs/context.h"
#include "front/verbs/data_path.h"
#include "front/verbs/guarded.h"
#include "front/verbs/listed.h"
#include "front/verbs/nic.h"
#include "front/verbs/pd.h"

namespace verbena::front {

ibv_mw* alloc_mw(ibv_pd* ibpd, ibv_mw_type type) {
  return guarded("ibv_alloc_mw", [&]() -> Result<ibv_mw*> {
    const Pd& pd = pd_of(ibpd);
    if (!is_live(pd.nic)) return inherited("the protection domain");
    if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
      return Error{EINVAL, fmt::format("type {}: must be 1 or 2", int{type})};
    }
    using Type = engine::MemoryRegion::Type;
    auto mw = std::make_unique<Mw>();
    Listed listed{context_of(ibpd->context).objects.mws, mw.get()};
    const Result<Key> key =
        pd.nic->alloc_window(pd.id, type == IBV_MW_TYPE_1 ? Type::window_1 : Type::window_2);
    if (!key) return key.error();
    mw->context = ibpd->context;
    mw->pd = ibpd;
    mw->rkey = key->value();
    mw->handle = key->value();
    mw->type = type;
    mw->nic = pd.nic;
    mw->key = *key;
    listed.keep();
    return mw.release();
  });
}

/// Type 1: the device chooses the key.
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) noexcept {
  ibv_send_wr wr{};
  wr.wr_id = bind->wr_id;
  wr.opcode = IBV_WR_BIND_MW;
  wr.send_flags = bind->send_flags;
  wr.bind_mw.mw = mw;
  wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
  wr.bind_mw.bind_info = bind->bind_info;
  ibv_send_wr* bad = nullptr;
  const int code = post_send(qp, &wr, &bad);
  if (code == 0) mw->rkey = wr.bind_mw.rkey;
  return code;
}

int dealloc_mw(ibv_mw* mw) {
  return guarded_status("ibv_dealloc_mw", [&] { return destroy(&mw_of(mw)); });
}

Status destroy(Mw* mw) {
  if (is_live(mw->nic)) {
    if (Status s = mw->nic->dealloc_window(mw->key); !s) return s;
  }
  {
    const auto lock = lock_lists();
    context_of(mw->context).objects.mws.erase(mw);
  }
  delete mw;
  return Ok{};
}

}  // namespace verbena::front
