// How a Connection comes to be. Its queue pair is ours, not rdma_cm's, so that the transitions can
// be adjusted and every queue pair of a program is the same kind of object:
//
//   connect()                                     accept()
//   resolve; QP to INIT; prepare                  QP to INIT; prepare
//   rdma_connect            ---- REQ ---->        (CONNECT_REQUEST)
//                                                 QP to RTR, RTS
//   CONNECT_RESPONSE        <---- REP ----        rdma_accept
//   QP to RTR, RTS
//   rdma_establish          ---- RTU ---->        ESTABLISHED
#pragma once

#include "rdma++/connection.h"

namespace rdma {

namespace detail {

/// Room for private data in the messages of rdma_cm's TCP port space, rdma_connect(3).
inline constexpr std::size_t kRequestRoom = 56, kReplyRoom = 196, kRejectRoom = 148;

[[nodiscard]] inline std::uint8_t no_more_than(std::uint8_t wanted, int limit) {
  return static_cast<std::uint8_t>(std::min(int{wanted}, limit));
}

[[nodiscard]] inline ProtectionDomain domain_for(const CmId& id, const ConnectionOptions& options) {
  if (options.pd == nullptr) return ProtectionDomain{id.context()};
  const std::string wanted = id.context().name();
  if (options.pd->context().name() != wanted) {
    throw Error{"connection", concat("to ", id.peer().to_string()), EXDEV,
                concat("it goes over device ", wanted, ", the protection domain is of ",
                       options.pd->context().name())};
  }
  return ProtectionDomain::sharing(*options.pd);
}

[[nodiscard]] inline QueuePair queue_pair_for(const ProtectionDomain& pd, const CompletionQueue& cq,
                                              const ConnectionOptions& options) {
  QueuePairBuilder builder = QueuePair::rc(pd);
  builder.cq(cq)
      .depth(options.send_depth, options.recv_depth)
      .sge(options.send_sge, options.recv_sge)
      .inline_size(options.inline_size)
      .signal_all(options.signal_all);
  if (options.recv_cq != nullptr) builder.recv_cq(*options.recv_cq);
  if (options.srq != nullptr) builder.srq(*options.srq);
  return builder.create();
}

/// The address to speak from, when the caller cares.
[[nodiscard]] inline std::optional<SocketAddress> source_for(const SocketAddress& to,
                                                             const ConnectionOptions& options) {
  if (options.source) return options.source;
  if (options.device.empty()) return std::nullopt;
  const Context context{Device::by_name(options.device)};
  const Gid family = to.family() == AF_INET ? *Gid::parse("0.0.0.0") : Gid{};
  return SocketAddress::of(context.best_gid(1, family), 0);
}

}  // namespace detail

inline Connection Connection::connect(const SocketAddress& to, const ConnectionOptions& options) {
  const Deadline until = options.timeout;
  CmChannel channel;
  CmId id{channel};
  id.resolve(channel, to, detail::source_for(to, options), until);
  Connection connection{std::move(channel), std::move(id), options};
  connection.start_as_client(options, until);
  return connection;
}

inline Connection::Connection(CmChannel channel, CmId id, const ConnectionOptions& options) {
  ProtectionDomain pd = detail::domain_for(id, options);
  Context context = pd.context();
  CompletionQueue cq{context, static_cast<int>(options.send_depth + options.recv_depth)};
  QueuePair qp = detail::queue_pair_for(pd, cq, options);
  Buffer control{pd, kControlSize, Access::local_write};
  parts_ = std::make_unique<Parts>(Parts{.channel = std::move(channel),
                                         .id = std::move(id),
                                         .context = std::move(context),
                                         .pd = std::move(pd),
                                         .cq = std::move(cq),
                                         .control = std::move(control),
                                         .qp = std::move(qp),
                                         .private_data = {},
                                         .kept = {},
                                         .timeout = options.timeout,
                                         .linger = options.linger,
                                         .foreign_recv_cq = options.recv_cq != nullptr,
                                         .flush_at = std::nullopt,
                                         .silent_at = std::nullopt});
  const auto access = static_cast<unsigned>(options.access);
  parts_->id.modify(parts_->qp, IBV_QPS_INIT, "reset to init",
                    [&](ibv_qp_attr& attr) { attr.qp_access_flags = access; });
}

inline rdma_conn_param Connection::parameters(const char* verb, const ConnectionOptions& options,
                                              std::size_t room) const {
  if (options.private_data.size() > room) {
    throw Error{verb, peer_name(), EMSGSIZE,
                concat("private data of ", options.private_data.size(),
                       " bytes, there is room for ", room)};
  }
  const ibv_device_attr& device = context().limits();
  rdma_conn_param param{};
  param.private_data = options.private_data.empty() ? nullptr : options.private_data.data();
  param.private_data_len = static_cast<std::uint8_t>(options.private_data.size());
  param.responder_resources = detail::no_more_than(options.max_rd_atomic, device.max_qp_rd_atom);
  param.initiator_depth = detail::no_more_than(options.max_rd_atomic, device.max_qp_init_rd_atom);
  param.retry_count = options.retry_count;
  param.rnr_retry_count = options.rnr_retry;
  param.srq = options.srq != nullptr ? 1 : 0;
  param.qp_num = parts_->qp.number();
  return param;
}

inline void Connection::ready_to_send(const ConnectionOptions& options,
                                      std::uint8_t responder_resources,
                                      std::uint8_t initiator_depth) {
  parts_->id.modify(parts_->qp, IBV_QPS_RTR, "init to rtr", [&](ibv_qp_attr& attr) {
    attr.min_rnr_timer = options.min_rnr_timer;
    attr.max_dest_rd_atomic = responder_resources;
  });
  parts_->id.modify(parts_->qp, IBV_QPS_RTS, "rtr to rts", [&](ibv_qp_attr& attr) {
    attr.max_rd_atomic = initiator_depth;
    if (options.ack_timeout) attr.timeout = *options.ack_timeout;
  });
}

inline void Connection::start_as_client(const ConnectionOptions& options, Deadline until) {
  if (options.prepare) options.prepare(*this);
  rdma_conn_param param = parameters("rdma_connect", options, detail::kRequestRoom);
  if (rdma_connect(parts_->id.raw(), &param) != 0) throw Error{"rdma_connect", peer_name(), errno};
  CmEvent answer = parts_->id.wait_for(parts_->channel, RDMA_CM_EVENT_CONNECT_RESPONSE,
                                       "rdma_connect", peer_name(), until);
  parts_->private_data = std::move(answer.private_data);
  // The peer's depth bounds what we may have open there, and the other way round.
  ready_to_send(options, std::min(param.responder_resources, answer.conn.responder_resources),
                std::min(param.initiator_depth, answer.conn.initiator_depth));
  if (rdma_establish(parts_->id.raw()) != 0) throw Error{"rdma_establish", peer_name(), errno};
  parts_->established = true;
}

inline void Connection::answer_as_server(const ConnectionOptions& options,
                                         const rdma_conn_param& request) {
  if (options.prepare) options.prepare(*this);
  rdma_conn_param param = parameters("rdma_accept", options, detail::kReplyRoom);
  param.responder_resources = std::min(param.responder_resources, request.responder_resources);
  param.initiator_depth = std::min(param.initiator_depth, request.initiator_depth);
  ready_to_send(options, param.responder_resources, param.initiator_depth);
  if (rdma_accept(parts_->id.raw(), &param) != 0) throw Error{"rdma_accept", peer_name(), errno};
}

inline void Connection::wait_until_established(Deadline until) {
  // When the network loses the RTU, a quick client may have come, done its work and hung up before
  // it is repeated. Then the goodbye is what tells that the connection was there.
  const CmEvent came =
      parts_->id.wait_for(parts_->channel, RDMA_CM_EVENT_ESTABLISHED, "rdma_accept", peer_name(),
                          until, RDMA_CM_EVENT_DISCONNECTED);
  if (came.type == RDMA_CM_EVENT_DISCONNECTED) {
    parts_->peer_left = true;
    parts_->flush_at = Deadline{std::chrono::seconds{0}};
  }
  parts_->established = true;
}

}  // namespace rdma
