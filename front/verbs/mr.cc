#include "front/verbs/mr.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

#include "front/preload/real.h"
#include "front/verbs/context.h"
#include "front/verbs/dm.h"
#include "front/verbs/export.h"
#include "front/verbs/guarded.h"
#include "front/verbs/listed.h"
#include "front/verbs/newer_verbs.h"
#include "front/verbs/nic.h"
#include "front/verbs/pd.h"

namespace verbena::front {

namespace {

constexpr unsigned kSupported = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND |
                                newer::kAccessFlushGlobal;
/// Hints: how far apart pages are, and in which order writes may become visible. All is well either
/// way.
constexpr unsigned kHints = IBV_ACCESS_HUGETLB | unsigned{IBV_ACCESS_OPTIONAL_RANGE};
constexpr unsigned kWrites = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

/// What the kernel checks of a registration before it looks at the memory.
Status check(const void* address, std::size_t length, std::uint64_t iova, unsigned access) {
  if (Status s = check_access(access); !s) return s;
  if (length == 0) return Error{EINVAL, "length 0"};
  if (address == nullptr && length == SIZE_MAX && (access & IBV_ACCESS_ON_DEMAND) == 0) {
    return Error{EINVAL,
                 "the whole address space (addr NULL, length SIZE_MAX) can be registered "
                 "with IBV_ACCESS_ON_DEMAND only"};
  }
  const auto page_offset = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) - 1;
  if (((reinterpret_cast<std::uintptr_t>(address) ^ iova) & page_offset) != 0) {
    return Error{EINVAL, fmt::format("address {} and iova {:#x} differ in their offset in a page",
                                     address, iova)};
  }
  return Ok{};
}

/// What a failed change leaves behind, as the return values of ibv_rereg_mr() tell it. The
/// registration stands as it was in either case.
struct Rereg {
  int code = 0;
  Status why = Ok{};
};

Rereg reregister(Mr& mr, int flags, ibv_pd* pd, void* address, std::size_t length, int access) {
  const auto has = [&](int bit) { return (flags & bit) != 0; };
  if (flags == 0 || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0) {
    return {IBV_REREG_MR_ERR_INPUT,
            Error{EINVAL, fmt::format("flags {:#x}: must be 1 to {:#x}", flags,
                                      int{IBV_REREG_MR_FLAGS_SUPPORTED})}};
  }
  if (has(IBV_REREG_MR_CHANGE_TRANSLATION) && (length == 0 || address == nullptr)) {
    return {IBV_REREG_MR_ERR_INPUT, Error{EINVAL, "a new translation needs addr and length"}};
  }
  if (has(IBV_REREG_MR_CHANGE_PD) && (pd == nullptr || pd->context != mr.context)) {
    return {IBV_REREG_MR_ERR_INPUT, Error{EINVAL, "pd must be a domain of the same context"}};
  }
  if (has(IBV_REREG_MR_CHANGE_ACCESS)) {
    if (Status s = check_access(static_cast<unsigned>(access)); !s) {
      return {IBV_REREG_MR_ERR_INPUT, s};
    }
  }
  if (!is_live(mr.nic)) return {IBV_REREG_MR_ERR_INPUT, inherited("the memory region")};

  std::optional<engine::PdId> new_pd;
  std::optional<engine::Segment> new_memory;
  std::optional<unsigned> new_access;
  if (has(IBV_REREG_MR_CHANGE_PD)) new_pd = pd_of(pd).id;
  if (has(IBV_REREG_MR_CHANGE_TRANSLATION)) {
    new_memory = engine::Segment{reinterpret_cast<std::uintptr_t>(address), length};
  }
  if (has(IBV_REREG_MR_CHANGE_ACCESS)) new_access = static_cast<unsigned>(access) & kSupported;
  const auto region = mr.nic->reregister_memory(mr.key, new_pd, new_memory, new_access);
  if (!region) return {IBV_REREG_MR_ERR_CMD, region.error()};
  if (new_pd) mr.pd = pd;
  if (new_memory) {
    mr.addr = address;
    mr.length = length;
  }
  return {};
}

}  // namespace

Status check_access(unsigned access) {
  if ((access & newer::kAccessFlushPersistent) != 0) {
    return Error{EINVAL, fmt::format("access {:#x}: the memory is not persistent; "
                                     "IBV_ACCESS_FLUSH_GLOBAL is supported",
                                     access)};
  }
  if (const unsigned bits = access & ~(kSupported | kHints); bits != 0) {
    return Error{EINVAL, fmt::format("access {:#x}: {:#x} is unknown", access, bits)};
  }
  if ((access & kWrites) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0) {
    return Error{EINVAL, fmt::format("access {:#x}: remote write and remote atomic need "
                                     "IBV_ACCESS_LOCAL_WRITE too",
                                     access)};
  }
  return Ok{};
}

Result<ibv_mr*> register_memory(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                                unsigned access) {
  if (const Status s = check(address, length, iova, access); !s) return s.error();
  const engine::Segment memory{reinterpret_cast<std::uintptr_t>(address), length};
  const Result<Mr*> mr = make_mr(pd, [&](host::Nic& nic, engine::PdId id) {
    return nic.register_memory(id, memory, iova, access & kSupported);
  });
  if (!mr) return mr.error();
  (*mr)->addr = address;
  return *mr;
}

Result<Mr*> make_mr(ibv_pd* ibpd, const MakeRegion& make) {
  const Pd& pd = pd_of(ibpd);
  if (!is_live(pd.nic)) return inherited("the protection domain");
  auto mr = std::make_unique<Mr>();
  Listed listed{context_of(ibpd->context).objects.mrs, mr.get()};
  const Result<engine::MemoryRegion> region = make(*pd.nic, pd.id);
  if (!region) return region.error();
  mr->context = ibpd->context;
  mr->pd = ibpd;
  mr->length = region->length;
  mr->handle = region->key.value();
  mr->lkey = region->key.value();
  mr->rkey = region->key.value();
  mr->nic = pd.nic;
  mr->key = region->key;
  listed.keep();
  return mr.release();
}

ibv_mr* alloc_null_mr(ibv_pd* pd) {
  return guarded("ibv_alloc_null_mr", [&]() -> Result<ibv_mr*> {
    const Result<Mr*> mr =
        make_mr(pd, [](host::Nic& nic, engine::PdId id) { return nic.register_null(id); });
    if (!mr) return mr.error();
    return *mr;
  });
}

Status check_dm_access(unsigned access) {
  if ((access & IBV_ACCESS_ZERO_BASED) == 0 || (access & IBV_ACCESS_ON_DEMAND) != 0) {
    return Error{EINVAL,
                 fmt::format("access {:#x}: device memory must be registered zero based and "
                             "not on demand",
                             access)};
  }
  return check_access(access);
}

int advise_mr(ibv_pd* ibpd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* list,
              std::uint32_t count) {
  return guarded_status("ibv_advise_mr", [&]() -> Status {
    // A program in C may hand in any number.
    unsigned number = 0;
    static_assert(sizeof number == sizeof advice);
    std::memcpy(&number, &advice, sizeof number);
    if (number > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) {
      return Error{EOPNOTSUPP, fmt::format("advice {} is unknown", number)};
    }
    if ((flags & ~std::uint32_t{IBV_ADVISE_MR_FLAG_FLUSH}) != 0 || count == 0) {
      return Error{
          EINVAL,
          fmt::format("flags {:#x}, {} ranges: flags must be 0 or FLUSH, with 1 range or more",
                      flags, count)};
    }
    const Pd& pd = pd_of(ibpd);
    if (!is_live(pd.nic)) return inherited("the protection domain");
    // What is present already is all that NO_FAULT asks for.
    if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) return Ok{};
    for (const ibv_sge& range : std::span{list, count}) {
      Status done = pd.nic->prefetch(pd.id, {range.addr, range.length, Key{range.lkey}},
                                     advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE);
      if (!done) return done;
    }
    return Ok{};
  });
}

Status destroy(Mr* mr) {
  if (is_live(mr->nic)) {
    if (Status s = mr->nic->deregister_memory(mr->key); !s) return s;
  }
  if (mr->dm) --mr->dm->regions;
  forget(mr);
  return Ok{};
}

void forget(Mr* mr) {
  {
    const auto lock = lock_lists();
    context_of(mr->context).objects.mrs.erase(mr);
  }
  delete mr;
}

}  // namespace verbena::front

// Macros of the same names choose between the first two and the last.
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

using namespace verbena;
using namespace verbena::front;

VERBENA_EXPORT ibv_mr* ibv_reg_mr(ibv_pd* pd, void* addr, std::size_t length, int access) {
  if (!is_ours(pd)) {
    return real::call<"ibv_reg_mr", "IBVERBS_1.1">(ibv_reg_mr, pd, addr, length, access);
  }
  return guarded("ibv_reg_mr", [&] {
    return register_memory(pd, addr, length, reinterpret_cast<std::uintptr_t>(addr),
                           static_cast<unsigned>(access));
  });
}

VERBENA_EXPORT ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* addr, std::size_t length,
                                       std::uint64_t iova, int access) {
  if (!is_ours(pd)) {
    return real::call<"ibv_reg_mr_iova", "IBVERBS_1.7">(ibv_reg_mr_iova, pd, addr, length, iova,
                                                        access);
  }
  return guarded("ibv_reg_mr_iova", [&] {
    return register_memory(pd, addr, length, iova, static_cast<unsigned>(access));
  });
}

VERBENA_EXPORT ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* addr, std::size_t length,
                                        std::uint64_t iova, unsigned access) {
  if (!is_ours(pd)) {
    return real::call<"ibv_reg_mr_iova2", "IBVERBS_1.8">(ibv_reg_mr_iova2, pd, addr, length, iova,
                                                         access);
  }
  return guarded("ibv_reg_mr", [&] { return register_memory(pd, addr, length, iova, access); });
}

VERBENA_EXPORT int ibv_dereg_mr(ibv_mr* mr) {
  if (!is_ours(mr)) return real::call<"ibv_dereg_mr", "IBVERBS_1.1">(ibv_dereg_mr, mr);
  return guarded_status("ibv_dereg_mr", [&] { return destroy(static_cast<Mr*>(mr)); });
}

VERBENA_EXPORT int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* addr, std::size_t length,
                                int access) {
  if (!is_ours(mr)) {
    return real::call<"ibv_rereg_mr", "IBVERBS_1.1">(ibv_rereg_mr, mr, flags, pd, addr, length,
                                                     access);
  }
  int code = IBV_REREG_MR_ERR_CMD;
  guarded_status("ibv_rereg_mr", [&]() -> Status {
    const Rereg done = reregister(static_cast<Mr&>(*mr), flags, pd, addr, length, access);
    code = done.code;
    return done.why;
  });
  return code;
}
