// Where a datagram goes.
#pragma once

#include <infiniband/verbs.h>

#include "rdma++/completion.h"
#include "rdma++/object.h"
#include "rdma++/protection_domain.h"
#include "rdma++/queue_pair_attributes.h"
#include "rdma++/work_request.h"

namespace rdma {

class AddressHandle : public Object<ibv_ah> {
 public:
  /// UD receives begin with it, whether or not it is filled in.
  static constexpr std::size_t kGrhSize = sizeof(ibv_grh);

  AddressHandle(const ProtectionDomain& pd, const Path& path)
      : AddressHandle{pd, path.attributes()} {}
  AddressHandle(const ProtectionDomain& pd, ibv_ah_attr attr) : Object{create(pd, attr)} {}

  /// Back to the sender of a datagram; `grh` is where the receive buffer began.
  [[nodiscard]] static AddressHandle reply_to(const ProtectionDomain& pd,
                                              const Completion& received, const void* grh,
                                              std::uint8_t port = 1) {
    Completion copy = received;  // the verb's parameters are not const
    ibv_grh header{};
    if (received.has_grh()) std::memcpy(&header, grh, sizeof header);
    ibv_ah* const raw = ibv_create_ah_from_wc(pd.raw(), &copy, &header, port);
    if (raw == nullptr) {
      throw Error{"ibv_create_ah_from_wc", detail::device_of(pd.raw()->context), errno};
    }
    return AddressHandle{own(raw, "ibv_destroy_ah", ibv_destroy_ah, pd.share())};
  }

 private:
  explicit AddressHandle(Shared<ibv_ah> raw) : Object{std::move(raw)} {}

  static Shared<ibv_ah> create(const ProtectionDomain& pd, ibv_ah_attr& attr) {
    ibv_ah* const raw = ibv_create_ah(pd.raw(), &attr);
    if (raw == nullptr) {
      throw Error{"ibv_create_ah", detail::device_of(pd.raw()->context), errno,
                  concat("to ", Gid::from(attr.grh.dgid).to_string(), " from sgid_index ",
                         int{attr.grh.sgid_index}, " of port ", int{attr.port_num})};
    }
    return own(raw, "ibv_destroy_ah", ibv_destroy_ah, pd.share());
  }
};

inline Send& Send::to(const AddressHandle& address, std::uint32_t qpn,
                      std::uint32_t qkey) noexcept {
  wr_.wr.ud = {address.raw(), qpn, qkey};
  return *this;
}

}  // namespace rdma
