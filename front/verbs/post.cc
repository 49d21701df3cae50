#include <cstring>
#include <optional>
#include <span>

#include "front/verbs/data_path.h"
#include "front/verbs/nic.h"
#include "front/verbs/qp.h"
#include "front/verbs/room.h"
#include "host/log.h"

namespace verbena::front {

namespace {

/// Room for the longest gather list that a queue pair can have.
using Sges = Room<engine::Sge, engine::Limits::kMaxSge>;

/// nullopt: more entries than any queue pair takes.
std::optional<std::span<const engine::Sge>> convert(const ibv_sge* list, int count, Sges& room) {
  if (count < 0 || static_cast<std::size_t>(count) > Sges::kSize) return std::nullopt;
  const std::span<engine::Sge> sges = room.first(static_cast<std::size_t>(count));
  for (engine::Sge& to : sges) {
    to = {list->addr, list->length, Key{list->lkey}};
    ++list;
  }
  return sges;
}

/// nullopt: not an operation of an RC queue pair, or not yet.
std::optional<engine::SendKind> convert(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_SEND:
      return engine::SendKind::send;
    case IBV_WR_SEND_WITH_IMM:
      return engine::SendKind::send_immediate;
    case IBV_WR_RDMA_WRITE:
      return engine::SendKind::write;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return engine::SendKind::write_immediate;
    case IBV_WR_RDMA_READ:
      return engine::SendKind::read;
    default:
      return std::nullopt;
  }
}

packet::Immediate immediate_of(const ibv_send_wr& wr) {
  packet::Immediate bytes;
  std::memcpy(bytes.data(), &wr.imm_data, bytes.size());
  return bytes;
}

int code_of(engine::PostResult result) {
  switch (result) {
    case engine::PostResult::posted:
      return 0;
    case engine::PostResult::queue_full:
      return ENOMEM;
    case engine::PostResult::bad_state:
      return EINVAL;
    case engine::PostResult::bad_request:
      return EINVAL;
    case engine::PostResult::unsupported:
      return EOPNOTSUPP;
  }
  return EINVAL;
}

/// A full queue is how some programs pace themselves; the rest is somebody's mistake.
void explain(const char* call, const ibv_qp& qp, std::uint64_t wr_id, engine::PostResult result) {
  switch (result) {
    case engine::PostResult::posted:
      return;
    case engine::PostResult::queue_full:
      host::log(host::LogLevel::debug, "{}: qp {:#x}: wr_id {:#x}: the queue is full", call,
                qp.qp_num, wr_id);
      return;
    case engine::PostResult::bad_state:
      host::log(host::LogLevel::warn, "{}: qp {:#x}: wr_id {:#x}: not in a state that takes it",
                call, qp.qp_num, wr_id);
      return;
    case engine::PostResult::unsupported:
      host::log(host::LogLevel::warn, "{}: qp {:#x}: wr_id {:#x}: not an operation of its type",
                call, qp.qp_num, wr_id);
      return;
    case engine::PostResult::bad_request:
      host::log(host::LogLevel::warn,
                "{}: qp {:#x}: wr_id {:#x}: more scatter/gather entries, more inline data or a "
                "longer message than the queue pair takes",
                call, qp.qp_num, wr_id);
      return;
  }
}

int send_one(const Qp& qp, const ibv_send_wr& wr) {
  const std::optional<engine::SendKind> kind = convert(wr.opcode);
  if (!kind) {
    host::log(host::LogLevel::warn,
              "ibv_post_send: qp {:#x}: wr_id {:#x}: opcode {} is not supported yet", qp.qp_num,
              wr.wr_id, int{wr.opcode});
    return EOPNOTSUPP;
  }
  Sges room;
  auto result = engine::PostResult::bad_request;
  if (const auto sges = convert(wr.sg_list, wr.num_sge, room)) {
    result = qp.nic->post_send(*qp.pair, {.wr_id = wr.wr_id,
                                          .kind = *kind,
                                          .signaled = (wr.send_flags & IBV_SEND_SIGNALED) != 0,
                                          .solicited = (wr.send_flags & IBV_SEND_SOLICITED) != 0,
                                          .fence = (wr.send_flags & IBV_SEND_FENCE) != 0,
                                          .inlined = (wr.send_flags & IBV_SEND_INLINE) != 0,
                                          .immediate = immediate_of(wr),
                                          .remote_address = wr.wr.rdma.remote_addr,
                                          .rkey = Key{wr.wr.rdma.rkey},
                                          .sges = *sges});
  }
  if (result != engine::PostResult::posted) explain("ibv_post_send", qp, wr.wr_id, result);
  return code_of(result);
}

int receive_one(const Qp& qp, const ibv_recv_wr& wr) {
  Sges room;
  auto result = engine::PostResult::bad_request;
  if (const auto sges = convert(wr.sg_list, wr.num_sge, room)) {
    result = qp.nic->post_receive(*qp.pair, {.wr_id = wr.wr_id, .sges = *sges});
  }
  if (result != engine::PostResult::posted) explain("ibv_post_recv", qp, wr.wr_id, result);
  return code_of(result);
}

/// Posts a list up to the first request that is refused.
template <typename Wr, typename Post>
int post_list(const Qp& qp, Wr* wr, Wr** bad_wr, Post post) {
  for (; wr != nullptr; wr = wr->next) {
    if (const int code = post(qp, *wr); code != 0) {
      if (bad_wr != nullptr) *bad_wr = wr;
      return code;
    }
  }
  return 0;
}

template <typename Wr>
int refuse_inherited(Wr* wr, Wr** bad_wr) {
  if (bad_wr != nullptr) *bad_wr = wr;
  return EINVAL;
}

}  // namespace

int post_send(ibv_qp* ibqp, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept {
  const Qp& qp = qp_of(ibqp);
  if (!is_live(qp.nic)) return refuse_inherited(wr, bad_wr);
  const int code = post_list(qp, wr, bad_wr, send_one);
  qp.nic->kick();
  return code;
}

int post_recv(ibv_qp* ibqp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept {
  const Qp& qp = qp_of(ibqp);
  if (!is_live(qp.nic)) return refuse_inherited(wr, bad_wr);
  return post_list(qp, wr, bad_wr, receive_one);
}

}  // namespace verbena::front
