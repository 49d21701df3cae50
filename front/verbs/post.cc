#include "front/verbs/post.h"

#include <cstring>
#include <mutex>
#include <optional>
#include <span>

#include "front/verbs/ah.h"
#include "front/verbs/data_path.h"
#include "front/verbs/mw.h"
#include "front/verbs/nic.h"
#include "front/verbs/qp.h"
#include "front/verbs/room.h"
#include "front/verbs/srq.h"
#include "front/verbs/wq.h"
#include "host/log.h"

namespace verbena::front {

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
void explain(const char* call, const char* object, std::uint32_t number, std::uint64_t wr_id,
             engine::PostResult result) {
  const char* why = "";
  auto level = host::LogLevel::warn;
  switch (result) {
    case engine::PostResult::posted:
      return;
    case engine::PostResult::queue_full:
      level = host::LogLevel::debug;
      why = "the queue is full";
      break;
    case engine::PostResult::bad_state:
      why = "not in a state that takes it";
      break;
    case engine::PostResult::unsupported:
      why = "not an operation of its type";
      break;
    case engine::PostResult::bad_request:
      why =
          "more scatter/gather entries, more inline data, a longer or shorter message than it "
          "takes; an address handle or a memory window that is missing or of another device; or "
          "a queue pair that receives from a shared queue";
      break;
  }
  host::log(level, "{}: {} {:#x}: wr_id {:#x}: {}", call, object, number, wr_id, why);
}

engine::SendRequest request_of(engine::SendKind kind, std::uint64_t wr_id, unsigned flags) {
  return {.wr_id = wr_id,
          .kind = kind,
          .signaled = (flags & IBV_SEND_SIGNALED) != 0,
          .solicited = (flags & IBV_SEND_SOLICITED) != 0,
          .fence = (flags & IBV_SEND_FENCE) != 0,
          .inlined = (flags & IBV_SEND_INLINE) != 0};
}

engine::Sge sge_of(const ibv_sge& sge) { return {sge.addr, sge.length, Key{sge.lkey}}; }

packet::Immediate immediate_of(__be32 immediate) {
  packet::Immediate bytes;
  std::memcpy(bytes.data(), &immediate, bytes.size());
  return bytes;
}

engine::WindowBinding binding_of(ibv_mw* window, std::uint32_t new_key,
                                 const ibv_mw_bind_info& info) {
  return {.window = mw_of(window).key,
          .new_key = Key{new_key},
          .region = info.mr != nullptr ? Key{info.mr->rkey} : Key{},
          .address = info.addr,
          .length = info.length,
          .access = info.mw_access_flags};
}

engine::Destination destination_of(const ibv_ah* ah, std::uint32_t qpn, std::uint32_t qkey) {
  return {ah_of(ah).flow, Qpn{qpn}, qkey};
}

namespace {

/// Room for the longest gather list that a queue pair can have.
using Sges = Room<engine::Sge, engine::Limits::kMaxSge>;

/// nullopt: more entries than any queue pair takes.
std::optional<std::span<const engine::Sge>> convert(const ibv_sge* list, int count, Sges& room) {
  if (count < 0 || static_cast<std::size_t>(count) > Sges::kSize) return std::nullopt;
  const std::span<engine::Sge> sges = room.first(static_cast<std::size_t>(count));
  for (engine::Sge& to : sges) {
    to = sge_of(*list++);
  }
  return sges;
}

/// nullopt: an operation that no queue pair of ours has.
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
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return engine::SendKind::compare_swap;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return engine::SendKind::fetch_add;
    case IBV_WR_SEND_WITH_INV:
      return engine::SendKind::send_invalidate;
    case IBV_WR_LOCAL_INV:
      return engine::SendKind::local_invalidate;
    case IBV_WR_BIND_MW:
      return engine::SendKind::bind_window;
    case IBV_WR_ATOMIC_WRITE:
      return engine::SendKind::atomic_write;
    default:
      return std::nullopt;
  }
}

/// What only some kinds of requests have. False: an object that it needs isn't there.
bool add_details(const Qp& qp, const ibv_send_wr& wr, engine::SendRequest& r) {
  switch (r.kind) {
    case engine::SendKind::compare_swap:
    case engine::SendKind::fetch_add:
      r.rkey = Key{wr.wr.atomic.rkey};
      r.atomic = r.kind == engine::SendKind::compare_swap
                     ? engine::AtomicOperands{wr.wr.atomic.compare_add, wr.wr.atomic.swap}
                     : engine::AtomicOperands{0, wr.wr.atomic.compare_add};
      break;
    case engine::SendKind::send_invalidate:
    case engine::SendKind::local_invalidate:
      r.invalidate = Key{wr.invalidate_rkey};
      break;
    case engine::SendKind::bind_window:
      if (wr.bind_mw.mw == nullptr) return false;
      r.binding = binding_of(wr.bind_mw.mw, wr.bind_mw.rkey, wr.bind_mw.bind_info);
      break;
    default:
      break;
  }
  if (qp.qp_base.qp_type == IBV_QPT_UD) {
    if (wr.wr.ud.ah == nullptr) return false;
    r.destination = destination_of(wr.wr.ud.ah, wr.wr.ud.remote_qpn, wr.wr.ud.remote_qkey);
  }
  r.xrc_srq = qp.qp_base.qp_type == IBV_QPT_XRC_SEND ? wr.qp_type.xrc.remote_srqn : 0;
  return true;
}

/// Inline data is copied here and now, by the CPU.
bool is_within_reach(const Qp& qp, const engine::SendRequest& r) {
  for (const engine::Sge& sge : r.sges) {
    if (!host::Nic::is_out_of_reach(sge.address)) continue;
    host::log(
        host::LogLevel::warn,
        "ibv_post_send: qp {:#x}: wr_id {:#x}: inline data at {:#x}, in memory of a GPU; post "
        "it without IBV_SEND_INLINE",
        qp.qp_base.qp_num, r.wr_id, sge.address);
    return false;
  }
  return true;
}

int send_one(const Qp& qp, const ibv_send_wr& wr) {
  const std::optional<engine::SendKind> kind = convert(wr.opcode);
  if (!kind) {
    host::log(host::LogLevel::warn,
              "ibv_post_send: qp {:#x}: wr_id {:#x}: opcode {} is not supported", qp.qp_base.qp_num,
              wr.wr_id, int{wr.opcode});
    return EOPNOTSUPP;
  }
  Sges room;
  auto result = engine::PostResult::bad_request;
  if (const auto sges = convert(wr.sg_list, wr.num_sge, room)) {
    engine::SendRequest r = request_of(*kind, wr.wr_id, wr.send_flags);
    r.immediate = immediate_of(wr.imm_data);
    r.remote_address = wr.wr.rdma.remote_addr;
    r.rkey = Key{wr.wr.rdma.rkey};
    r.sges = *sges;
    if (r.inlined && !is_within_reach(qp, r)) return EINVAL;
    if (add_details(qp, wr, r)) result = qp.nic->post_send(*qp.pair, r);
  }
  if (result != engine::PostResult::posted) {
    explain("ibv_post_send", "qp", qp.qp_base.qp_num, wr.wr_id, result);
  }
  return code_of(result);
}

/// `queue` is a queue pair's or a shared one.
template <typename Queue>
engine::PostResult receive_one(host::Nic& nic, Queue& queue, const ibv_recv_wr& wr) {
  Sges room;
  const auto sges = convert(wr.sg_list, wr.num_sge, room);
  if (!sges) return engine::PostResult::bad_request;
  return nic.post_receive(queue, {.wr_id = wr.wr_id, .sges = *sges});
}

/// Posts a list up to the first request that is refused.
template <typename Wr, typename Post>
int post_list(Wr* wr, Wr** bad_wr, Post post) {
  for (; wr != nullptr; wr = wr->next) {
    if (const int code = post(*wr); code != 0) {
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

template <typename Queue>
int receive_list(host::Nic& nic, Queue& queue, const char* call, const char* object,
                 std::uint32_t number, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  return post_list(wr, bad_wr, [&](const ibv_recv_wr& one) {
    const engine::PostResult result = receive_one(nic, queue, one);
    if (result != engine::PostResult::posted) explain(call, object, number, one.wr_id, result);
    return code_of(result);
  });
}

}  // namespace

int post_send(ibv_qp* ibqp, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept {
  const Qp& qp = qp_of(ibqp);
  if (!is_live(qp.nic)) return refuse_inherited(wr, bad_wr);
  const auto lock = qp.batch ? std::unique_lock{qp.batch->mutex} : std::unique_lock<std::mutex>{};
  const int code = post_list(wr, bad_wr, [&](const ibv_send_wr& one) { return send_one(qp, one); });
  qp.nic->kick(*qp.pair);
  return code;
}

int post_recv(ibv_qp* ibqp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept {
  const Qp& qp = qp_of(ibqp);
  if (!is_live(qp.nic)) return refuse_inherited(wr, bad_wr);
  return receive_list(*qp.nic, *qp.pair, "ibv_post_recv", "qp", qp.qp_base.qp_num, wr, bad_wr);
}

int post_srq_recv(ibv_srq* ibsrq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept {
  const Srq& srq = srq_of(ibsrq);
  if (!is_live(srq.nic)) return refuse_inherited(wr, bad_wr);
  return receive_list(*srq.nic, *srq.queue, "ibv_post_srq_recv", "srq", srq.handle, wr, bad_wr);
}

int post_wq_recv(ibv_wq* ibwq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept {
  const Wq& wq = wq_of(ibwq);
  if (!is_live(wq.nic)) return refuse_inherited(wr, bad_wr);
  return receive_list(*wq.nic, *wq.pair, "ibv_post_wq_recv", "wq", wq.wq_num, wr, bad_wr);
}

}  // namespace verbena::front
