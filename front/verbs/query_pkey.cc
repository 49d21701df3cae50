// RoCE has one partition: the default one, with full membership.

#include <endian.h>
#include <fmt/format.h>

#include "front/preload/real.h"
#include "front/verbs/context.h"
#include "front/verbs/export.h"
#include "front/verbs/guarded.h"

using namespace verbena;
using namespace verbena::front;

namespace {
constexpr std::uint16_t kDefaultPkey = 0xffff;
}

VERBENA_EXPORT int ibv_query_pkey(ibv_context* context, std::uint8_t port, int index,
                                  __be16* pkey) {
  if (!is_ours(context)) {
    return real::call<"ibv_query_pkey", "IBVERBS_1.1">(ibv_query_pkey, context, port, index, pkey);
  }
  return guarded_minus_one("ibv_query_pkey", [&]() -> Status {
    if (Status s = check_port(context_of(context), port); !s) return s;
    if (index != 0) return Error{EINVAL, fmt::format("index {}: the table has one entry", index)};
    *pkey = htobe16(kDefaultPkey);
    return Ok{};
  });
}

VERBENA_EXPORT int ibv_get_pkey_index(ibv_context* context, std::uint8_t port, __be16 pkey) {
  if (!is_ours(context)) {
    return real::call<"ibv_get_pkey_index", "IBVERBS_1.5">(ibv_get_pkey_index, context, port, pkey);
  }
  return guarded_minus_one("ibv_get_pkey_index", [&]() -> Status {
    if (Status s = check_port(context_of(context), port); !s) return s;
    if (pkey == htobe16(kDefaultPkey)) return Ok{};
    return Error{EINVAL, fmt::format("P_Key {:#x} is not in the table", be16toh(pkey))};
  });
}
