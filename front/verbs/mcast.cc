#include <cstring>

#include "front/preload/real.h"
#include "front/verbs/context.h"
#include "front/verbs/export.h"
#include "front/verbs/guarded.h"
#include "front/verbs/nic.h"
#include "front/verbs/qp.h"

using namespace verbena;
using namespace verbena::front;

namespace {

using Change = Status (host::Nic::*)(host::QueuePair&, const host::Device&, const IpAddress&);

Status change(ibv_qp* ibqp, const ibv_gid& gid, Change how) {
  const Qp& qp = qp_of(ibqp);
  if (!is_live(qp.nic)) return inherited("the queue pair");
  IpAddress::Bytes bytes;
  std::memcpy(bytes.data(), gid.raw, bytes.size());
  return of_qp(qp.qp_base.qp_num,
               (qp.nic->*how)(*qp.pair, context_of(qp.qp_base.context).now(), IpAddress{bytes}));
}

}  // namespace

// The LID of a group means nothing on Ethernet.

VERBENA_EXPORT int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid) {
  if (!is_ours(qp)) {
    return real::call<"ibv_attach_mcast", "IBVERBS_1.1">(ibv_attach_mcast, qp, gid, lid);
  }
  return guarded_status("ibv_attach_mcast",
                        [&] { return change(qp, *gid, &host::Nic::attach_multicast); });
}

VERBENA_EXPORT int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid) {
  if (!is_ours(qp)) {
    return real::call<"ibv_detach_mcast", "IBVERBS_1.1">(ibv_detach_mcast, qp, gid, lid);
  }
  return guarded_status("ibv_detach_mcast",
                        [&] { return change(qp, *gid, &host::Nic::detach_multicast); });
}
