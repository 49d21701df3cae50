#include "front/verbs/parent_domain.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "front/verbs/context.h"
#include "front/verbs/guarded.h"
#include "front/verbs/mr.h"
#include "front/verbs/mw.h"
#include "front/verbs/nic.h"
#include "front/verbs/qp.h"
#include "front/verbs/srq.h"

namespace verbena::front {

namespace {

Td& td_of(ibv_td* td) { return static_cast<Td&>(*td); }

Status check(const ibv_context* context, const ibv_parent_domain_init_attr& attr) {
  constexpr std::uint32_t kKnown =
      IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
  if (const std::uint32_t bits = attr.comp_mask & ~kKnown; bits != 0) {
    return Error{EOPNOTSUPP,
                 fmt::format("comp_mask {:#x}: {:#x} is not supported", attr.comp_mask, bits)};
  }
  if (attr.pd == nullptr || attr.pd->context != context || pd_of(attr.pd).below != nullptr) {
    return Error{EINVAL, "pd must be a protection domain of the same context"};
  }
  if (attr.td != nullptr && attr.td->context != context) {
    return Error{EINVAL, "td must be a thread domain of the same context"};
  }
  const bool allocators = (attr.comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0;
  if (allocators && (attr.alloc == nullptr || attr.free == nullptr)) {
    return Error{EINVAL, "alloc and free are both needed"};
  }
  return Ok{};
}

/// Under lock_lists().
bool in_use(const Objects& objects, const ibv_pd* pd) {
  const auto uses = [&](const auto* object) { return object->pd == pd; };
  return std::ranges::any_of(objects.qps, [&](const Qp* qp) { return qp->qp_base.pd == pd; }) ||
         std::ranges::any_of(objects.srqs, uses) || std::ranges::any_of(objects.mrs, uses) ||
         std::ranges::any_of(objects.mws, uses);
}

}  // namespace

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr) {
  return guarded("ibv_alloc_td", [&]() -> Result<ibv_td*> {
    if (attr->comp_mask != 0) {
      return Error{EINVAL, fmt::format("comp_mask {:#x}: must be 0", attr->comp_mask)};
    }
    auto td = std::make_unique<Td>();
    td->context = context;
    const auto lock = lock_lists();
    context_of(context).objects.tds.insert(td.get());
    return td.release();
  });
}

int dealloc_td(ibv_td* td) {
  return guarded_status("ibv_dealloc_td", [&] { return destroy(&td_of(td)); });
}

Status destroy(Td* td) {
  {
    const auto lock = lock_lists();
    if (td->parents > 0) {
      return Error{EBUSY, fmt::format("{} parent domains still use it", td->parents)};
    }
    context_of(td->context).objects.tds.erase(td);
  }
  delete td;
  return Ok{};
}

ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr) {
  return guarded("ibv_alloc_parent_domain", [&]() -> Result<ibv_pd*> {
    if (const Status s = check(context, *attr); !s) return s.error();
    Pd& below = pd_of(attr->pd);
    if (!is_live(below.nic)) return inherited("the protection domain");
    const Result<Pd*> pd = alias(context, below);
    if (!pd) return pd.error();
    const auto lock = lock_lists();
    (*pd)->below = &below;
    (*pd)->td = attr->td;
    ++below.parents;
    if (attr->td != nullptr) ++td_of(attr->td).parents;
    return *pd;
  });
}

Status destroy_parent(Pd* pd) {
  {
    const auto lock = lock_lists();
    if (in_use(context_of(pd->context).objects, pd)) {
      return Error{EBUSY, "queues or memory regions that were made with it still exist"};
    }
    --pd->below->parents;
    if (pd->td != nullptr) --td_of(pd->td).parents;
  }
  forget(pd);
  return Ok{};
}

}  // namespace verbena::front
