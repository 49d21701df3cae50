#include "front/verbs/pd.h"

#include <fmt/format.h>

#include <memory>

#include "front/preload/real.h"
#include "front/verbs/context.h"
#include "front/verbs/export.h"
#include "front/verbs/guarded.h"
#include "front/verbs/listed.h"
#include "front/verbs/nic.h"
#include "front/verbs/parent_domain.h"

namespace verbena::front {

Status destroy(Pd* pd) {
  {
    const auto lock = lock_lists();
    if (pd->address_handles > 0) {
      return Error{EBUSY, fmt::format("{} address handles are still in it", pd->address_handles)};
    }
    if (pd->parents > 0) {
      return Error{EBUSY, fmt::format("{} parent domains still use it", pd->parents)};
    }
  }
  if (pd->below != nullptr) return destroy_parent(pd);
  if (is_live(pd->nic)) {
    if (Status s = pd->nic->dealloc_pd(pd->id); !s) return s;
  }
  forget(pd);
  return Ok{};
}

void forget(Pd* pd) {
  {
    const auto lock = lock_lists();
    context_of(pd->context).objects.pds.erase(pd);
  }
  delete pd;
}

Result<Pd*> alias(ibv_context* context, const Pd& of) {
  auto pd = std::make_unique<Pd>();
  pd->context = context;
  pd->handle = of.handle;
  pd->nic = of.nic;
  pd->id = of.id;
  const auto lock = lock_lists();
  context_of(context).objects.pds.insert(pd.get());
  return pd.release();
}

}  // namespace verbena::front

using namespace verbena;
using namespace verbena::front;

VERBENA_EXPORT ibv_pd* ibv_alloc_pd(ibv_context* context) {
  if (!is_ours(context)) {
    return real::call<"ibv_alloc_pd", "IBVERBS_1.1">(ibv_alloc_pd, context);
  }
  return guarded("ibv_alloc_pd", [&]() -> Result<ibv_pd*> {
    const Result<host::Nic*> nic = start_nic();
    if (!nic) return nic.error();
    auto pd = std::make_unique<Pd>();
    Listed listed{context_of(context).objects.pds, pd.get()};
    const Result<engine::PdId> id = (*nic)->alloc_pd();
    if (!id) return id.error();
    pd->context = context;
    pd->handle = static_cast<std::uint32_t>(*id);
    pd->nic = *nic;
    pd->id = *id;
    listed.keep();
    return pd.release();
  });
}

VERBENA_EXPORT int ibv_dealloc_pd(ibv_pd* pd) {
  if (!is_ours(pd)) return real::call<"ibv_dealloc_pd", "IBVERBS_1.1">(ibv_dealloc_pd, pd);
  return guarded_status("ibv_dealloc_pd", [&] { return destroy(&pd_of(pd)); });
}
