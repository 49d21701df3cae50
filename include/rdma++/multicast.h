// Membership in a multicast group.
#pragma once

#include <rdma/rdma_cma.h>

#include <cstdint>
#include <string>

#include "rdma++/address_handle.h"
#include "rdma++/cm_id.h"
#include "rdma++/protection_domain.h"
#include "rdma++/queue_pair.h"

namespace rdma {

/// While it lives, `qp` (a UD one that is ready to receive) gets what is sent to the group
/// ("239.1.2.3", "ff0e::1"), and the group can be sent to:
///   Multicast group{pd, qp, "239.1.2.3"};
///   qp.post(Send{data}.to(group.address(), group.qpn(), group.qkey()));
/// The queue pair must have been activated with kQkey, which rdma_cm gives to every group.
class Multicast {
 public:
  static constexpr std::uint32_t kQkey = RDMA_UDP_QKEY;

  Multicast(const ProtectionDomain& pd, const QueuePair& qp, const std::string& group,
            Deadline until = std::chrono::seconds{5})
      : group_{SocketAddress::of(group, 0)},
        qp_{qp.share()},
        answer_{join(pd, until)},
        address_{pd, answer_.ud.ah_attr} {
    const ibv_gid raw = gid().raw();
    const int code = ibv_attach_mcast(qp_.get(), &raw, answer_.ud.ah_attr.dlid);
    if (code != 0) throw Error{"ibv_attach_mcast", concat(qp.describe(), ", ", group), code};
  }
  Multicast(const Multicast&) = delete;
  Multicast& operator=(const Multicast&) = delete;
  ~Multicast() {
    const ibv_gid raw = gid().raw();
    const int code = ibv_detach_mcast(qp_.get(), &raw, answer_.ud.ah_attr.dlid);
    if (code != 0) report(concat("ibv_detach_mcast: ", errno_text(code)));
    if (rdma_leave_multicast(id_.raw(), group_.raw()) != 0) {
      report(concat("rdma_leave_multicast: ", errno_text(errno)));
    }
  }

  [[nodiscard]] const AddressHandle& address() const noexcept { return address_; }
  [[nodiscard]] std::uint32_t qpn() const noexcept { return answer_.ud.qp_num; }
  [[nodiscard]] std::uint32_t qkey() const noexcept { return answer_.ud.qkey; }
  [[nodiscard]] Gid gid() const { return Gid::from(answer_.ud.ah_attr.grh.dgid); }

 private:
  CmEvent join(const ProtectionDomain& pd, Deadline until) {
    const std::string object = group_.to_string();
    const Context context = pd.context();
    const Gid family = group_.family() == AF_INET ? *Gid::parse("0.0.0.0") : Gid{};
    id_.bind(SocketAddress::of(context.best_gid(1, family), 0));
    if (rdma_join_multicast(id_.raw(), group_.raw(), nullptr) != 0) {
      throw Error{"rdma_join_multicast", object, errno};
    }
    return id_.wait_for(channel_, RDMA_CM_EVENT_MULTICAST_JOIN, "rdma_join_multicast", object,
                        until);
  }

  CmChannel channel_;
  CmId id_{channel_, RDMA_PS_UDP};
  SocketAddress group_;
  Shared<ibv_qp> qp_;
  CmEvent answer_;
  AddressHandle address_;
};

}  // namespace rdma
