// ibv_query_gid_type is of the private interface, but ibv_devinfo and others call it. Its
// signature never changed, so one function serves all generations.

#include <infiniband/verbs.h>

#include "front/preload/real.h"
#include "front/verbs/context.h"
#include "front/verbs/export.h"
#include "front/verbs/guarded.h"

namespace verbena::front {

namespace {

enum class SysfsGidType : int { ib_or_roce_v1 = 0, roce_v2 = 1 };

using QueryGidType = int (*)(ibv_context*, std::uint8_t, unsigned, SysfsGidType*);

/// The system's library has it at one of them.
QueryGidType find_real() {
  for (const char* version :
       {"IBVERBS_PRIVATE_34", "IBVERBS_PRIVATE_33", "IBVERBS_PRIVATE_57", "IBVERBS_PRIVATE_59",
        "IBVERBS_PRIVATE_64", "IBVERBS_PRIVATE_65", "IBVERBS_PRIVATE_25", "IBVERBS_PRIVATE_22"}) {
    if (void* const found = real::symbol("ibv_query_gid_type", version, real::Absence::quiet)) {
      return reinterpret_cast<QueryGidType>(found);
    }
  }
  return nullptr;
}

}  // namespace

/// 0, or -1 with errno.
extern "C" __attribute__((visibility("default"))) int verbena_query_gid_type(ibv_context* context,
                                                                             std::uint8_t port,
                                                                             unsigned index,
                                                                             SysfsGidType* type) {
  if (!is_ours(context)) {
    static const QueryGidType found = find_real();
    return found != nullptr ? found(context, port, index, type) : real::missing<int>();
  }
  return guarded_minus_one("ibv_query_gid_type", [&]() -> Status {
    const auto gid = gid_at(context_of(context), port, index);
    if (!gid) return gid.error();
    // As libibverbs says of an empty entry.
    *type = *gid == IpAddress{} ? SysfsGidType::ib_or_roce_v1 : SysfsGidType::roce_v2;
    return Ok{};
  });
}

#define VERBENA_BIND(n) \
  __asm__(".symver verbena_query_gid_type,ibv_query_gid_type@IBVERBS_PRIVATE_" #n)
VERBENA_BIND(15);
VERBENA_BIND(16);
VERBENA_BIND(17);
VERBENA_BIND(18);
VERBENA_BIND(19);
VERBENA_BIND(20);
VERBENA_BIND(21);
VERBENA_BIND(22);
VERBENA_BIND(25);
VERBENA_BIND(33);
VERBENA_BIND(34);
VERBENA_BIND(57);
VERBENA_BIND(59);
VERBENA_BIND(64);
VERBENA_BIND(65);
#undef VERBENA_BIND

}  // namespace verbena::front
