// Verbs that our device doesn't have yet. They must be taken over all the same: the real ones
// would look for a provider's private data behind our objects.

#include <infiniband/verbs.h>

#include <string>

#include "front/preload/real.h"
#include "front/verbs/context.h"
#include "front/verbs/export.h"
#include "front/verbs/guarded.h"

using namespace verbena;
using namespace verbena::front;

namespace {

/// For verbs that return 0 or an errno value.
int unsupported(const char* call) {
  return report(call, Error{EOPNOTSUPP, "not supported by this device yet"});
}

/// For verbs that give an object.
std::nullptr_t no_object(const char* call) {
  unsupported(call);
  return nullptr;
}

}  // namespace

// Address handles: the unreliable datagram service.

VERBENA_EXPORT ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  if (is_ours(pd)) return no_object("ibv_create_ah");
  return real::call<"ibv_create_ah", "IBVERBS_1.1">(ibv_create_ah, pd, attr);
}

VERBENA_EXPORT ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh,
                                             std::uint8_t port) {
  if (is_ours(pd)) return no_object("ibv_create_ah_from_wc");
  return real::call<"ibv_create_ah_from_wc", "IBVERBS_1.1">(ibv_create_ah_from_wc, pd, wc, grh,
                                                            port);
}

VERBENA_EXPORT int ibv_init_ah_from_wc(ibv_context* context, std::uint8_t port, ibv_wc* wc,
                                       ibv_grh* grh, ibv_ah_attr* attr) {
  if (is_ours(context)) return unsupported("ibv_init_ah_from_wc");
  return real::call<"ibv_init_ah_from_wc", "IBVERBS_1.1">(ibv_init_ah_from_wc, context, port, wc,
                                                          grh, attr);
}

VERBENA_EXPORT int ibv_destroy_ah(ibv_ah* ah) {
  if (is_ours(ah)) return unsupported("ibv_destroy_ah");
  return real::call<"ibv_destroy_ah", "IBVERBS_1.1">(ibv_destroy_ah, ah);
}

VERBENA_EXPORT int ibv_resolve_eth_l2_from_gid(ibv_context* context, ibv_ah_attr* attr,
                                               std::uint8_t mac[ETHERNET_LL_SIZE],
                                               std::uint16_t* vlan) {
  if (is_ours(context)) return unsupported("ibv_resolve_eth_l2_from_gid");
  return real::call<"ibv_resolve_eth_l2_from_gid", "IBVERBS_1.1">(ibv_resolve_eth_l2_from_gid,
                                                                  context, attr, mac, vlan);
}

VERBENA_EXPORT int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid) {
  if (is_ours(qp)) return unsupported("ibv_attach_mcast");
  return real::call<"ibv_attach_mcast", "IBVERBS_1.1">(ibv_attach_mcast, qp, gid, lid);
}

VERBENA_EXPORT int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid) {
  if (is_ours(qp)) return unsupported("ibv_detach_mcast");
  return real::call<"ibv_detach_mcast", "IBVERBS_1.1">(ibv_detach_mcast, qp, gid, lid);
}

// Shared receive queues.

VERBENA_EXPORT ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  if (is_ours(pd)) return no_object("ibv_create_srq");
  return real::call<"ibv_create_srq", "IBVERBS_1.1">(ibv_create_srq, pd, attr);
}

VERBENA_EXPORT int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) {
  if (is_ours(srq)) return unsupported("ibv_modify_srq");
  return real::call<"ibv_modify_srq", "IBVERBS_1.1">(ibv_modify_srq, srq, attr, mask);
}

VERBENA_EXPORT int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attr) {
  if (is_ours(srq)) return unsupported("ibv_query_srq");
  return real::call<"ibv_query_srq", "IBVERBS_1.1">(ibv_query_srq, srq, attr);
}

VERBENA_EXPORT int ibv_destroy_srq(ibv_srq* srq) {
  if (is_ours(srq)) return unsupported("ibv_destroy_srq");
  return real::call<"ibv_destroy_srq", "IBVERBS_1.1">(ibv_destroy_srq, srq);
}

// Completion queues and queue pairs.

VERBENA_EXPORT int ibv_resize_cq(ibv_cq* cq, int cqe) {
  if (is_ours(cq)) return unsupported("ibv_resize_cq");
  return real::call<"ibv_resize_cq", "IBVERBS_1.1">(ibv_resize_cq, cq, cqe);
}

VERBENA_EXPORT ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  if (is_ours(qp)) return no_object("ibv_qp_to_qp_ex");
  return real::call<"ibv_qp_to_qp_ex", "IBVERBS_1.6">(ibv_qp_to_qp_ex, qp);
}

VERBENA_EXPORT int ibv_set_ece(ibv_qp* qp, ibv_ece* ece) {
  if (is_ours(qp)) return unsupported("ibv_set_ece");
  return real::call<"ibv_set_ece", "IBVERBS_1.10">(ibv_set_ece, qp, ece);
}

VERBENA_EXPORT int ibv_query_ece(ibv_qp* qp, ibv_ece* ece) {
  if (is_ours(qp)) return unsupported("ibv_query_ece");
  return real::call<"ibv_query_ece", "IBVERBS_1.10">(ibv_query_ece, qp, ece);
}

/// 1 would promise that payload becomes visible in order, also between packets.
VERBENA_EXPORT int ibv_query_qp_data_in_order(ibv_qp* qp, ibv_wr_opcode opcode,
                                              std::uint32_t flags) {
  if (is_ours(qp)) return 0;
  return real::call<"ibv_query_qp_data_in_order", "IBVERBS_1.14">(ibv_query_qp_data_in_order, qp,
                                                                  opcode, flags);
}

// Memory.

VERBENA_EXPORT int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* addr, std::size_t length,
                                int access) {
  if (is_ours(mr)) {
    unsupported("ibv_rereg_mr");
    return IBV_REREG_MR_ERR_INPUT;  // the registration stands as it was
  }
  return real::call<"ibv_rereg_mr", "IBVERBS_1.1">(ibv_rereg_mr, mr, flags, pd, addr, length,
                                                   access);
}

/// Programs probe it with descriptor -1: EOPNOTSUPP says that there is no support. Not for
/// the log: all is well.
VERBENA_EXPORT ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t length,
                                         std::uint64_t iova, int fd, int access) {
  if (is_ours(pd)) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  return real::call<"ibv_reg_dmabuf_mr", "IBVERBS_1.12">(ibv_reg_dmabuf_mr, pd, offset, length,
                                                         iova, fd, access);
}

// Objects of other processes.

VERBENA_EXPORT ibv_pd* ibv_import_pd(ibv_context* context, std::uint32_t handle) {
  if (is_ours(context)) return no_object("ibv_import_pd");
  return real::call<"ibv_import_pd", "IBVERBS_1.10">(ibv_import_pd, context, handle);
}

VERBENA_EXPORT ibv_mr* ibv_import_mr(ibv_pd* pd, std::uint32_t handle) {
  if (is_ours(pd)) return no_object("ibv_import_mr");
  return real::call<"ibv_import_mr", "IBVERBS_1.10">(ibv_import_mr, pd, handle);
}

VERBENA_EXPORT ibv_dm* ibv_import_dm(ibv_context* context, std::uint32_t handle) {
  if (is_ours(context)) return no_object("ibv_import_dm");
  return real::call<"ibv_import_dm", "IBVERBS_1.13">(ibv_import_dm, context, handle);
}
