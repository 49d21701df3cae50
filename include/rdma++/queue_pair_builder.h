// How a queue pair is made.
#pragma once

#include <infiniband/verbs.h>

#include "rdma++/completion_queue.h"
#include "rdma++/queue_pair.h"
#include "rdma++/shared_receive_queue.h"

namespace rdma {

class QueuePairBuilder {
 public:
  /// Completions of both queues go there.
  QueuePairBuilder& cq(const CompletionQueue& both) { return send_cq(both).recv_cq(both); }
  QueuePairBuilder& send_cq(const CompletionQueue& cq) {
    send_cq_ = cq.share();
    return *this;
  }
  QueuePairBuilder& recv_cq(const CompletionQueue& cq) {
    recv_cq_ = cq.share();
    return *this;
  }
  /// Receives come from there instead of a queue of its own.
  QueuePairBuilder& srq(const SharedReceiveQueue& srq) {
    srq_ = srq.share();
    return *this;
  }
  /// Requests that may wait in each queue.
  QueuePairBuilder& depth(std::uint32_t send, std::uint32_t recv) {
    attr_.cap.max_send_wr = send;
    attr_.cap.max_recv_wr = recv;
    return *this;
  }
  /// Slices of one request.
  QueuePairBuilder& sge(std::uint32_t send, std::uint32_t recv) {
    attr_.cap.max_send_sge = send;
    attr_.cap.max_recv_sge = recv;
    return *this;
  }
  /// Bytes that a request may carry inline.
  QueuePairBuilder& inline_size(std::uint32_t bytes) {
    attr_.cap.max_inline_data = bytes;
    return *this;
  }
  /// Every send request makes a completion.
  QueuePairBuilder& signal_all(bool all = true) {
    attr_.sq_sig_all = all ? 1 : 0;
    return *this;
  }

  [[nodiscard]] QueuePair create() const {
    const bool receives_only = attr_.qp_type == IBV_QPT_XRC_RECV;
    if (send_cq_ == nullptr && !receives_only) {
      throw Error{"ibv_create_qp", describe(), EINVAL, "no completion queue; call cq() first"};
    }
    ibv_qp_init_attr_ex attr = attr_;
    attr.send_cq = send_cq_.get();
    attr.recv_cq = recv_cq_.get();
    attr.srq = srq_.get();
    if (srq_ != nullptr || attr.qp_type == IBV_QPT_XRC_SEND) {
      attr.cap.max_recv_wr = attr.cap.max_recv_sge = 0;
    }
    if (receives_only) attr.cap = {};
    ibv_qp* const raw = ibv_create_qp_ex(context_, &attr);
    if (raw == nullptr) throw refusal(attr.cap, errno);
    if constexpr (kChecks) checks::InFlight::instance().opened(raw, attr.sq_sig_all != 0);
    return {own(raw, "ibv_destroy_qp", destroy, pd_, xrcd_, send_cq_, recv_cq_, srq_), attr.cap};
  }

 private:
  friend class QueuePair;
  QueuePairBuilder(ibv_qp_type type, const ProtectionDomain& pd)
      : QueuePairBuilder{type, pd.raw()->context} {
    pd_ = pd.share();
    attr_.pd = pd.raw();
    attr_.comp_mask = IBV_QP_INIT_ATTR_PD;
  }
  explicit QueuePairBuilder(const XrcDomain& domain)
      : QueuePairBuilder{IBV_QPT_XRC_RECV, domain.raw()->context} {
    xrcd_ = domain.share();
    attr_.xrcd = domain.raw();
    attr_.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  }
  QueuePairBuilder(ibv_qp_type type, ibv_context* context) : context_{context} {
    attr_.qp_type = type;
    attr_.cap = {.max_send_wr = 64,
                 .max_recv_wr = 64,
                 .max_send_sge = 4,
                 .max_recv_sge = 4,
                 .max_inline_data = 0};
  }

  static int destroy(ibv_qp* qp) {
    if constexpr (kChecks) checks::InFlight::instance().closed(qp);
    return ibv_destroy_qp(qp);
  }
  [[nodiscard]] std::string describe() const { return detail::device_of(context_); }
  [[nodiscard]] Error refusal(const ibv_qp_cap& asked, int code) const {
    return {"ibv_create_qp", describe(), code,
            limits::of_queue_pair(asked, srq_ != nullptr, detail::limits_of(context_))};
  }

  ibv_context* context_;
  ibv_qp_init_attr_ex attr_{};
  Shared<ibv_pd> pd_;
  Shared<ibv_xrcd> xrcd_;
  Shared<ibv_cq> send_cq_;
  Shared<ibv_cq> recv_cq_;
  Shared<ibv_srq> srq_;
};

inline QueuePairBuilder QueuePair::rc(const ProtectionDomain& pd) { return {IBV_QPT_RC, pd}; }
inline QueuePairBuilder QueuePair::uc(const ProtectionDomain& pd) { return {IBV_QPT_UC, pd}; }
inline QueuePairBuilder QueuePair::ud(const ProtectionDomain& pd) { return {IBV_QPT_UD, pd}; }
inline QueuePairBuilder QueuePair::xrc_send(const ProtectionDomain& pd) {
  return {IBV_QPT_XRC_SEND, pd};
}
inline QueuePairBuilder QueuePair::xrc_receive(const XrcDomain& domain) {
  return QueuePairBuilder{domain};
}

}  // namespace rdma
