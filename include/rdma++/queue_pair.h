// One end of a conversation: a send queue and a receive queue.
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <optional>
#include <random>
#include <span>

#include "rdma++/checks.h"
#include "rdma++/limits.h"
#include "rdma++/object.h"
#include "rdma++/post_status.h"
#include "rdma++/protection_domain.h"
#include "rdma++/queue_pair_attributes.h"
#include "rdma++/recv.h"
#include "rdma++/work_request.h"

namespace rdma {

class QueuePairBuilder;
class XrcDomain;

/// Made by a builder:
///   auto qp = QueuePair::rc(pd).cq(cq).depth(64, 64).create();
/// Posting and to_error() are as thread-safe as the verbs; the rest is for one thread.
class QueuePair : public Object<ibv_qp> {
 public:
  static QueuePairBuilder rc(const ProtectionDomain& pd);
  static QueuePairBuilder uc(const ProtectionDomain& pd);
  static QueuePairBuilder ud(const ProtectionDomain& pd);
  static QueuePairBuilder xrc_send(const ProtectionDomain& pd);
  static QueuePairBuilder xrc_receive(const XrcDomain& domain);

  [[nodiscard]] std::uint32_t number() const noexcept { return raw()->qp_num; }
  [[nodiscard]] ibv_qp_type type() const noexcept { return raw()->qp_type; }
  /// As last set by this side; query().qp_state asks the device.
  [[nodiscard]] ibv_qp_state state() const noexcept { return raw()->state; }
  /// What the device gave, which may be more than was asked for.
  [[nodiscard]] const ibv_qp_cap& capabilities() const noexcept { return cap_; }

  // ---------------------------------------------------------------- the data path

  PostStatus post(const SendRequest& request) const noexcept {
    request.raw()->next = nullptr;  // it may have been part of a chain
    return post_send(request.raw());
  }
  /// One call of the verb for all of them, in order.
  template <std::derived_from<SendRequest> Request>
  PostStatus post(std::span<Request> chain) const noexcept {
    if (chain.empty()) return {};
    for (std::size_t i = 0; i < chain.size(); ++i) {
      chain[i].set_next(i + 1 < chain.size() ? &chain[i + 1] : nullptr);
    }
    return post_send(chain.front().raw());
  }
  /// The same of requests of different kinds: post(write, send).
  template <std::derived_from<SendRequest> Second, std::derived_from<SendRequest>... Rest>
  PostStatus post(const SendRequest& first, const Second& second,
                  const Rest&... rest) const noexcept {
    const SendRequest* last = &second;
    first.raw()->next = second.raw();
    ((last->raw()->next = rest.raw(), last = &rest), ...);
    last->raw()->next = nullptr;
    return post_send(first.raw());
  }

  PostStatus post(const Recv& request) const noexcept {
    request.raw()->next = nullptr;
    return post_recv(request.raw());
  }
  PostStatus post(std::span<Recv> chain) const noexcept {
    if (chain.empty()) return {};
    for (std::size_t i = 0; i < chain.size(); ++i) {
      chain[i].set_next(i + 1 < chain.size() ? &chain[i + 1] : nullptr);
    }
    return post_recv(chain.front().raw());
  }

  // ---------------------------------------------------------------- states

  void to_init(const InitAttributes& wanted = {}) {
    modify("reset to init", wanted.attributes(), InitAttributes::mask(type()));
  }
  void to_rtr(const RtrAttributes& wanted) {
    modify("init to rtr", wanted.attributes(), RtrAttributes::mask(type()));
  }
  void to_rts(const RtsAttributes& wanted = {}) {
    modify("rtr to rts", wanted.attributes(), RtsAttributes::mask(type()));
  }
  /// Everything in flight completes with WR_FLUSH_ERR.
  void to_error() { to_state("to error", IBV_QPS_ERR); }
  /// Forgets everything in flight, without completions.
  void to_reset() {
    to_state("to reset", IBV_QPS_RESET);
    if constexpr (kChecks) checks::InFlight::instance().emptied(raw());
  }
  /// For the transitions that have no name here; `mask` as for ibv_modify_qp.
  void modify(const char* step, ibv_qp_attr attr, int mask) {
    const int code = ibv_modify_qp(raw(), &attr, mask);
    if (code != 0) throw refusal(step, attr, mask, code);
  }

  [[nodiscard]] ibv_qp_attr query(int mask = IBV_QP_STATE) const {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    const int code = ibv_query_qp(raw(), &attr, mask, &init);
    if (code != 0) throw Error{"ibv_query_qp", describe(), code};
    return attr;
  }

  // ---------------------------------------------------------------- by hand, without rdma_cm

  /// What the peer must know, with a fresh random PSN. Ask once, send it, then connect().
  [[nodiscard]] const ConnInfo& info(std::uint8_t port = 1,
                                     std::optional<GidEntry> from = std::nullopt) {
    if (!local_) {
      const GidEntry row = from ? *from : best_gid(raw()->context, port);
      const ibv_port_attr attr = port_attributes(port);
      local_gid_index_ = row.index;
      local_ = ConnInfo{.gid = row.gid,
                        .lid = attr.lid,
                        .qpn = number(),
                        .psn = std::random_device{}() & 0xff'ffffu,
                        .port = port,
                        .mtu = attr.active_mtu};
    }
    return *local_;
  }

  /// INIT, RTR and RTS in one; the peer does the same with our info().
  void connect(const ConnInfo& peer, Access access = Access::remote) {
    const ConnInfo local = info();
    if (state() == IBV_QPS_RESET) to_init({.port = local.port, .access = access});
    const ibv_device_attr device = detail::limits_of(raw()->context);
    to_rtr({.path = path_to(peer),
            .qpn = peer.qpn,
            .psn = peer.psn,
            .mtu = std::min(local.mtu, peer.mtu),
            .max_dest_rd_atomic = at_most(16, device.max_qp_rd_atom)});
    to_rts({.psn = local.psn, .max_rd_atomic = at_most(16, device.max_qp_init_rd_atom)});
  }
  /// The way to a peer from where info() speaks.
  [[nodiscard]] Path path_to(const ConnInfo& peer) {
    const ConnInfo& local = info();
    return {.gid = peer.gid,
            .lid = peer.lid,
            .gid_index = local_gid_index_,
            .port = local.port,
            .sl = peer.sl};
  }

  /// UD: ready to send and receive.
  void activate(std::uint32_t qkey, std::uint8_t port = 1) {
    to_init({.port = port, .qkey = qkey});
    to_rtr({});
    to_rts({.psn = info(port).psn});
  }

  /// UD: also takes what is sent to this group; the port must be a member of it (see Multicast).
  void attach(const Gid& group, std::uint16_t lid = 0) {
    const ibv_gid gid = group.raw();
    const int code = ibv_attach_mcast(raw(), &gid, lid);
    if (code != 0)
      throw Error{"ibv_attach_mcast", concat(describe(), ", ", group.to_string()), code};
  }
  void detach(const Gid& group, std::uint16_t lid = 0) {
    const ibv_gid gid = group.raw();
    const int code = ibv_detach_mcast(raw(), &gid, lid);
    if (code != 0)
      throw Error{"ibv_detach_mcast", concat(describe(), ", ", group.to_string()), code};
  }

  /// "qp 0x11 of device vb_lo"
  [[nodiscard]] std::string describe() const {
    return concat("qp ", hex(number()), " of ", detail::device_of(raw()->context));
  }

 private:
  friend class QueuePairBuilder;
  QueuePair(Shared<ibv_qp> raw, const ibv_qp_cap& cap) : Object{std::move(raw)}, cap_{cap} {}

  PostStatus post_send(ibv_send_wr* first) const noexcept {
    if constexpr (kChecks) checks::InFlight::instance().posting(raw(), first);
    ibv_send_wr* bad = nullptr;
    const int code = ibv_post_send(raw(), first, &bad);
    if constexpr (kChecks) {
      if (code != 0) checks::InFlight::instance().refused(raw(), bad);
    }
    return {"ibv_post_send", code};
  }
  PostStatus post_recv(ibv_recv_wr* first) const noexcept {
    if constexpr (kChecks) checks::InFlight::instance().posting(first, raw());
    ibv_recv_wr* bad = nullptr;
    const int code = ibv_post_recv(raw(), first, &bad);
    if constexpr (kChecks) {
      if (code != 0) checks::InFlight::instance().refused(raw(), bad);
    }
    return {"ibv_post_recv", code};
  }

  void to_state(const char* step, ibv_qp_state state) {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    modify(step, attr, IBV_QP_STATE);
  }
  [[nodiscard]] ibv_port_attr port_attributes(std::uint8_t port) const {
    ibv_port_attr attr{};
    const int code = ibv_query_port(raw()->context, port, &attr);
    if (code != 0) throw Error{"ibv_query_port", concat(describe(), ", port ", int{port}), code};
    return attr;
  }
  [[nodiscard]] static std::uint8_t at_most(int wanted, int limit) {
    return static_cast<std::uint8_t>(std::min(wanted, limit));
  }
  [[nodiscard]] Error refusal(const char* step, const ibv_qp_attr& attr, int mask, int code) const {
    ibv_port_attr port{};
    const std::uint8_t number = (mask & IBV_QP_PORT) != 0 ? attr.port_num : std::uint8_t{1};
    ibv_query_port(raw()->context, number, &port);
    std::string cause = limits::of_transition(attr, mask, detail::limits_of(raw()->context), port);
    if (cause.empty()) cause = concat("the queue pair is in state ", state_name(state()));
    return {"ibv_modify_qp", concat(describe(), ' ', step), code, cause};
  }
  [[nodiscard]] static const char* state_name(ibv_qp_state state) {
    static constexpr const char* kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
    return state <= IBV_QPS_ERR ? kNames[state] : "unknown";
  }

  ibv_qp_cap cap_;
  std::optional<ConnInfo> local_;
  int local_gid_index_ = 0;
};

}  // namespace rdma

#include "rdma++/queue_pair_builder.h"
