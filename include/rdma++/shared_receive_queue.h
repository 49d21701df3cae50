// Receives that many queue pairs draw from.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <span>

#include "rdma++/checks.h"
#include "rdma++/completion_queue.h"
#include "rdma++/limits.h"
#include "rdma++/object.h"
#include "rdma++/post_status.h"
#include "rdma++/protection_domain.h"
#include "rdma++/recv.h"
#include "rdma++/xrc_domain.h"

namespace rdma {

class SharedReceiveQueue : public Object<ibv_srq> {
 public:
  SharedReceiveQueue(const ProtectionDomain& pd, std::uint32_t depth, std::uint32_t sge = 4)
      : Object{create(pd, {depth, sge, 0})}, depth_{depth} {}
  /// Of XRC: senders name it by number(), completions go to `cq`.
  SharedReceiveQueue(const ProtectionDomain& pd, const XrcDomain& domain, const CompletionQueue& cq,
                     std::uint32_t depth, std::uint32_t sge = 4)
      : Object{create_xrc(pd, domain, cq, {depth, sge, 0})}, depth_{depth}, xrc_{true} {}

  PostStatus post(const Recv& request) const noexcept {
    request.raw()->next = nullptr;
    return post(request.raw());
  }
  PostStatus post(std::span<Recv> chain) const noexcept {
    if (chain.empty()) return {};
    for (std::size_t i = 0; i < chain.size(); ++i) {
      chain[i].set_next(i + 1 < chain.size() ? &chain[i + 1] : nullptr);
    }
    return post(chain.front().raw());
  }

  /// One IBV_EVENT_SRQ_LIMIT_REACHED of the context when fewer than this many receives are left;
  /// then it is off until set again.
  void set_limit(std::uint32_t receives) {
    ibv_srq_attr attr{};
    attr.srq_limit = receives;
    const int code = ibv_modify_srq(raw(), &attr, IBV_SRQ_LIMIT);
    if (code != 0) {
      throw Error{"ibv_modify_srq", describe(), code,
                  concat("srq_limit ", receives, ", the queue holds ", depth_)};
    }
  }
  [[nodiscard]] ibv_srq_attr query() const {
    ibv_srq_attr attr{};
    const int code = ibv_query_srq(raw(), &attr);
    if (code != 0) throw Error{"ibv_query_srq", describe(), code};
    return attr;
  }
  /// XRC only.
  [[nodiscard]] std::uint32_t number() const {
    std::uint32_t number = 0;
    const int code = ibv_get_srq_num(raw(), &number);
    if (code != 0) throw Error{"ibv_get_srq_num", describe(), code, "only those of XRC have one"};
    return number;
  }

 private:
  static Shared<ibv_srq> create(const ProtectionDomain& pd, const ibv_srq_attr& wanted) {
    ibv_srq_init_attr attr{.srq_context = nullptr, .attr = wanted};
    ibv_srq* const raw = ibv_create_srq(pd.raw(), &attr);
    if (raw == nullptr) throw refusal(pd, wanted, errno);
    return own(raw, "ibv_destroy_srq", destroy, pd.share());
  }
  static Shared<ibv_srq> create_xrc(const ProtectionDomain& pd, const XrcDomain& domain,
                                    const CompletionQueue& cq, const ibv_srq_attr& wanted) {
    ibv_srq_init_attr_ex attr{};
    attr.attr = wanted;
    attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                     IBV_SRQ_INIT_ATTR_CQ;
    attr.srq_type = IBV_SRQT_XRC;
    attr.pd = pd.raw();
    attr.xrcd = domain.raw();
    attr.cq = cq.raw();
    ibv_srq* const raw = ibv_create_srq_ex(pd.raw()->context, &attr);
    if (raw == nullptr) throw refusal(pd, wanted, errno);
    return own(raw, "ibv_destroy_srq", destroy, pd.share(), domain.share(), cq.share());
  }
  static int destroy(ibv_srq* srq) {
    if constexpr (kChecks) checks::InFlight::instance().closed(srq);
    return ibv_destroy_srq(srq);
  }
  static Error refusal(const ProtectionDomain& pd, const ibv_srq_attr& wanted, int code) {
    return {"ibv_create_srq", detail::device_of(pd.raw()->context), code,
            limits::of_shared_receive_queue(wanted, detail::limits_of(pd.raw()->context))};
  }

  /// Completions of XRC don't tell which queue a receive was from: those aren't watched.
  PostStatus post(ibv_recv_wr* first) const noexcept {
    if constexpr (kChecks) {
      if (!xrc_) checks::InFlight::instance().posting(first, raw());
    }
    ibv_recv_wr* bad = nullptr;
    const int code = ibv_post_srq_recv(raw(), first, &bad);
    if constexpr (kChecks) {
      if (code != 0 && !xrc_) checks::InFlight::instance().refused(raw(), bad);
    }
    return {"ibv_post_srq_recv", code};
  }
  [[nodiscard]] std::string describe() const {
    return concat("shared receive queue of ", detail::device_of(raw()->context));
  }

  std::uint32_t depth_;
  bool xrc_ = false;
};

}  // namespace rdma
