// ibv_query_gid_type is of the private interface, but ibv_devinfo and others call it. Its
// signature never changed, so one function serves all generations: it is exported without a
// version, and so matches every one.

#include <fmt/format.h>
#include <infiniband/verbs.h>

#include <string>

#include "front/preload/real.h"
#include "front/verbs/context.h"
#include "front/verbs/export.h"
#include "front/verbs/guarded.h"

namespace verbena::front {

namespace {

enum class SysfsGidType : int { ib_or_roce_v1 = 0, roce_v2 = 1 };

using QueryGidType = int (*)(ibv_context*, std::uint8_t, unsigned, SysfsGidType*);

/// Every release of rdma-core has it at the node of the provider interface that it brings.
QueryGidType find_real() {
  constexpr int kOldest = 15;
  constexpr int kNewest = 130;
  for (int release = kNewest; release >= kOldest; --release) {
    const std::string version = fmt::format("IBVERBS_PRIVATE_{}", release);
    void* const found = real::symbol("ibv_query_gid_type", version.c_str(), real::Absence::quiet);
    if (found != nullptr) return reinterpret_cast<QueryGidType>(found);
  }
  return nullptr;
}

}  // namespace

}  // namespace verbena::front

using namespace verbena;
using namespace verbena::front;

/// 0, or -1 with errno.
VERBENA_EXPORT int ibv_query_gid_type(ibv_context* context, std::uint8_t port, unsigned index,
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
