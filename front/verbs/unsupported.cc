// Verbs that our device doesn't have yet. They must be taken over all the same: the real ones
// would look for a provider's private data behind our objects.

#include <infiniband/verbs.h>

#include <string>

#include "front/preload/real.h"
#include "front/verbs/context.h"
#include "front/verbs/export.h"
#include "front/verbs/guarded.h"
#include "front/verbs/newer_verbs.h"
#include "front/verbs/real_descriptor.h"

using namespace verbena;
using namespace verbena::front;

namespace {

/// For verbs that return 0 or an errno value.
int unsupported(const char* call) {
  return report(call, Error{EOPNOTSUPP, "not supported by this device yet"});
}

}  // namespace

VERBENA_EXPORT int ibv_resolve_eth_l2_from_gid(ibv_context* context, ibv_ah_attr* attr,
                                               std::uint8_t mac[ETHERNET_LL_SIZE],
                                               std::uint16_t* vlan) {
  if (is_ours(context)) return unsupported("ibv_resolve_eth_l2_from_gid");
  return real::call<"ibv_resolve_eth_l2_from_gid", "IBVERBS_1.1">(ibv_resolve_eth_l2_from_gid,
                                                                  context, attr, mac, vlan);
}

// Queue pairs.

VERBENA_EXPORT int ibv_set_ece(ibv_qp* qp, ibv_ece* ece) {
  if (is_ours(qp)) return EOPNOTSUPP;  // librdmacm asks each queue pair; this is its usual answer
  return real::call<"ibv_set_ece", "IBVERBS_1.10">(ibv_set_ece, qp, ece);
}

VERBENA_EXPORT int ibv_query_ece(ibv_qp* qp, ibv_ece* ece) {
  if (is_ours(qp)) return EOPNOTSUPP;
  return real::call<"ibv_query_ece", "IBVERBS_1.10">(ibv_query_ece, qp, ece);
}

/// 1 would promise that payload becomes visible in order, also between packets.
VERBENA_EXPORT int ibv_query_qp_data_in_order(ibv_qp* qp, ibv_wr_opcode opcode,
                                              std::uint32_t flags) {
  if (is_ours(qp)) return 0;
  return real::call<"ibv_query_qp_data_in_order", "IBVERBS_1.14">(ibv_query_qp_data_in_order, qp,
                                                                  opcode, flags);
}

VERBENA_EXPORT int ibv_qp_attach_comp_cntr(ibv_qp* qp, ibv_comp_cntr* counter,
                                           ibv_qp_attach_comp_cntr_attr* attr) {
  if (is_ours(qp)) return EOPNOTSUPP;  // there are no counters of ours
  return real::call<"ibv_qp_attach_comp_cntr", "IBVERBS_1.18">(ibv_qp_attach_comp_cntr, qp, counter,
                                                               attr);
}

// Completion counters, DMA handles. Programs probe for them, so this is not for the log.

VERBENA_EXPORT int _ibv_query_comp_cntr_caps(ibv_context* context, ibv_comp_cntr_caps* caps,
                                             std::size_t size) {
  if (is_ours(context)) return EOPNOTSUPP;
  return real::call<"_ibv_query_comp_cntr_caps", "IBVERBS_1.18">(_ibv_query_comp_cntr_caps, context,
                                                                 caps, size);
}

VERBENA_EXPORT ibv_comp_cntr* ibv_create_comp_cntr(ibv_context* context,
                                                   ibv_comp_cntr_init_attr* attr) {
  if (is_ours(context)) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  return real::call<"ibv_create_comp_cntr", "IBVERBS_1.18">(ibv_create_comp_cntr, context, attr);
}

VERBENA_EXPORT ibv_dmah* ibv_alloc_dmah(ibv_context* context, ibv_dmah_init_attr* attr) {
  if (is_ours(context)) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  return real::call<"ibv_alloc_dmah", "IBVERBS_1.15">(ibv_alloc_dmah, context, attr);
}

// Memory.

VERBENA_EXPORT int ibv_dm_export_dmabuf_fd(ibv_dm* dm) {
  if (is_ours(dm)) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return real_descriptor<"ibv_dm_export_dmabuf_fd", "IBVERBS_1.16">(ibv_dm_export_dmabuf_fd, dm);
}
