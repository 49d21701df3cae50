// The ibv_wr_* family: a request is begun by its kind, completed by setters, and all that was begun
// since ibv_wr_start() is posted by ibv_wr_complete().

#include <cerrno>
#include <cstring>
#include <span>

#include "front/preload/real.h"
#include "front/verbs/context.h"
#include "front/verbs/export.h"
#include "front/verbs/newer_verbs.h"
#include "front/verbs/nic.h"
#include "front/verbs/post.h"
#include "front/verbs/qp.h"
#include "front/verbs/send_batch.h"
#include "host/log.h"

namespace verbena::front {

namespace {

void refuse(const Qp& qp, int code, const char* why) {
  SendBatch& b = *qp.batch;
  if (b.error != 0) return;
  b.error = code;
  host::log(host::LogLevel::warn, "ibv_wr_complete: qp {:#x}: wr_id {:#x}: {}; none is posted",
            qp.qp_base.qp_num, b.request.wr_id, why);
}

/// The request at hand needs no more setters.
void stage(const Qp& qp) {
  SendBatch& b = *qp.batch;
  if (!b.open) return;
  b.open = false;
  if (b.error != 0) return;
  if (qp.qp_base.qp_type == IBV_QPT_UD && !b.addressed) {
    refuse(qp, EINVAL, "no address: ibv_wr_set_ud_addr() is missing");
    return;
  }
  const auto result = host::Nic::stage_send(*qp.pair, b.request, b.staged);
  if (result == engine::PostResult::posted) {
    ++b.staged;
    return;
  }
  b.error = code_of(result);
  explain("ibv_wr_complete", "qp", qp.qp_base.qp_num, b.request.wr_id, result);
}

/// Begins a request.
engine::SendRequest& begin(ibv_qp_ex* ibqp, engine::SendKind kind, std::uint64_t operation) {
  const Qp& qp = qp_of(ibqp);
  stage(qp);
  SendBatch& b = *qp.batch;
  b.request = request_of(kind, ibqp->wr_id, ibqp->wr_flags & ~unsigned{IBV_SEND_INLINE});
  b.open = true;
  b.addressed = false;
  if ((b.operations & operation) == 0) {
    refuse(qp, EOPNOTSUPP, "an operation that send_ops_flags didn't ask for");
  }
  return b.request;
}

engine::SendRequest& begin_remote(ibv_qp_ex* qp, engine::SendKind kind, std::uint64_t operation,
                                  std::uint32_t rkey, std::uint64_t address) {
  engine::SendRequest& r = begin(qp, kind, operation);
  r.rkey = Key{rkey};
  r.remote_address = address;
  return r;
}

// ---- kinds

void wr_send(ibv_qp_ex* qp) { begin(qp, engine::SendKind::send, IBV_QP_EX_WITH_SEND); }

void wr_send_imm(ibv_qp_ex* qp, __be32 immediate) {
  begin(qp, engine::SendKind::send_immediate, IBV_QP_EX_WITH_SEND_WITH_IMM).immediate =
      immediate_of(immediate);
}

void wr_send_inv(ibv_qp_ex* qp, std::uint32_t rkey) {
  begin(qp, engine::SendKind::send_invalidate, IBV_QP_EX_WITH_SEND_WITH_INV).invalidate = Key{rkey};
}

void wr_send_tso(ibv_qp_ex* qp, void*, std::uint16_t, std::uint16_t) {
  begin(qp, engine::SendKind::send, IBV_QP_EX_WITH_TSO);
}

void wr_rdma_write(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address) {
  begin_remote(qp, engine::SendKind::write, IBV_QP_EX_WITH_RDMA_WRITE, rkey, address);
}

void wr_rdma_write_imm(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, __be32 immediate) {
  begin_remote(qp, engine::SendKind::write_immediate, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, rkey,
               address)
      .immediate = immediate_of(immediate);
}

void wr_rdma_read(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address) {
  begin_remote(qp, engine::SendKind::read, IBV_QP_EX_WITH_RDMA_READ, rkey, address);
}

void wr_atomic_cmp_swp(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address,
                       std::uint64_t compare, std::uint64_t swap) {
  begin_remote(qp, engine::SendKind::compare_swap, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, rkey, address)
      .atomic = {compare, swap};
}

void wr_atomic_fetch_add(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address,
                         std::uint64_t add) {
  begin_remote(qp, engine::SendKind::fetch_add, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, rkey, address)
      .atomic = {0, add};
}

/// IBA annex A19: a range, or all of the region, whose address and length are then not looked at.
void wr_flush(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, std::size_t length,
              std::uint8_t type, std::uint8_t level) {
  engine::SendRequest& r =
      begin_remote(qp, engine::SendKind::flush, newer::kQpExWithFlush, rkey, address);
  if (type == 0 || (type & ~(newer::kFlushGlobal | newer::kFlushPersistent)) != 0 ||
      (level != newer::kFlushRange && level != newer::kFlushRegion)) {
    refuse(qp_of(qp), EINVAL, "an unknown placement type or selectivity level");
    return;
  }
  const bool whole = level == newer::kFlushRegion;
  if (!whole && length > engine::kMaxMessage) {
    refuse(qp_of(qp), EINVAL, "a range of more than 2 GiB");
    return;
  }
  r.flush = {
      .what = {.selectivity = whole ? packet::Selectivity::region : packet::Selectivity::range,
               .global_visibility = (type & newer::kFlushGlobal) != 0,
               .persistence = (type & newer::kFlushPersistent) != 0},
      .length = whole ? 0 : static_cast<std::uint32_t>(length)};
}

void wr_bind_mw(ibv_qp_ex* qp, ibv_mw* mw, std::uint32_t rkey, const ibv_mw_bind_info* info) {
  engine::SendRequest& r = begin(qp, engine::SendKind::bind_window, IBV_QP_EX_WITH_BIND_MW);
  if (mw == nullptr || info == nullptr) {
    refuse(qp_of(qp), EINVAL, "no memory window, or nothing to bind it to");
    return;
  }
  r.binding = binding_of(mw, rkey, *info);
}

void wr_local_inv(ibv_qp_ex* qp, std::uint32_t rkey) {
  begin(qp, engine::SendKind::local_invalidate, IBV_QP_EX_WITH_LOCAL_INV).invalidate = Key{rkey};
}

// ---- setters

/// False: there is no request to set anything of.
bool has_request(const Qp& qp) {
  if (qp.batch->open) return true;
  refuse(qp, EINVAL, "a setter before any request");
  return false;
}

void wr_set_ud_addr(ibv_qp_ex* ibqp, ibv_ah* ah, std::uint32_t qpn, std::uint32_t qkey) {
  const Qp& qp = qp_of(ibqp);
  if (!has_request(qp)) return;
  if (ah == nullptr) {
    refuse(qp, EINVAL, "no address handle");
    return;
  }
  qp.batch->request.destination = destination_of(ah, qpn, qkey);
  qp.batch->addressed = true;
}

void wr_set_xrc_srqn(ibv_qp_ex* ibqp, std::uint32_t srqn) {
  const Qp& qp = qp_of(ibqp);
  if (has_request(qp)) qp.batch->request.xrc_srq = srqn;
}

void wr_set_sge_list(ibv_qp_ex* ibqp, std::size_t count, const ibv_sge* list) {
  const Qp& qp = qp_of(ibqp);
  if (!has_request(qp)) return;
  SendBatch& b = *qp.batch;
  if (count > b.sges.size()) {
    refuse(qp, EINVAL, "more scatter/gather entries than any queue pair takes");
    return;
  }
  for (std::size_t i = 0; i < count; ++i) b.sges[i] = sge_of(list[i]);
  b.request.sges = std::span{b.sges}.first(count);
  b.request.inlined = false;
}

void wr_set_sge(ibv_qp_ex* qp, std::uint32_t lkey, std::uint64_t address, std::uint32_t length) {
  const ibv_sge one{address, length, lkey};
  wr_set_sge_list(qp, 1, &one);
}

void wr_set_inline_data_list(ibv_qp_ex* ibqp, std::size_t count, const ibv_data_buf* list) {
  const Qp& qp = qp_of(ibqp);
  if (!has_request(qp)) return;
  SendBatch& b = *qp.batch;
  std::size_t length = 0;
  for (const ibv_data_buf& buffer : std::span{list, count}) {
    if (buffer.length > b.inlined.size() - length) {
      refuse(qp, EINVAL, "more inline data than max_inline_data");
      return;
    }
    if (host::Nic::is_out_of_reach(reinterpret_cast<std::uintptr_t>(buffer.addr))) {
      refuse(qp, EINVAL, "inline data in memory of a GPU; use wr_set_sge()");
      return;
    }
    if (buffer.length > 0) std::memcpy(b.inlined.data() + length, buffer.addr, buffer.length);
    length += buffer.length;
  }
  b.sges[0] = {reinterpret_cast<std::uintptr_t>(b.inlined.data()),
               static_cast<std::uint32_t>(length), Key{}};
  b.request.sges = std::span{b.sges}.first(1);
  b.request.inlined = true;
}

void wr_set_inline_data(ibv_qp_ex* qp, void* address, std::size_t length) {
  const ibv_data_buf one{address, length};
  wr_set_inline_data_list(qp, 1, &one);
}

void wr_atomic_write(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, const void* word) {
  begin_remote(qp, engine::SendKind::atomic_write, IBV_QP_EX_WITH_ATOMIC_WRITE, rkey, address);
  wr_set_inline_data(qp, const_cast<void*>(word), sizeof(std::uint64_t));
}

// ---- the list

void wr_start(ibv_qp_ex* ibqp) {
  const Qp& qp = qp_of(ibqp);
  SendBatch& b = *qp.batch;
  b.mutex.lock();
  b.staged = 0;
  b.open = false;
  b.error = is_live(qp.nic) ? 0 : EINVAL;
}

int wr_complete(ibv_qp_ex* ibqp) {
  const Qp& qp = qp_of(ibqp);
  SendBatch& b = *qp.batch;
  stage(qp);
  if (b.error == 0 && b.staged > 0) {
    b.error = code_of(qp.nic->publish_sends(*qp.pair, b.staged));
  }
  const int code = b.error;
  b.mutex.unlock();
  if (code == 0) qp.nic->kick(*qp.pair);
  return code;
}

void wr_abort(ibv_qp_ex* qp) {
  qp_of(qp).batch->open = false;
  qp_of(qp).batch->mutex.unlock();
}

}  // namespace

std::uint64_t send_operations(ibv_qp_type type) {
  constexpr std::uint64_t kDatagram = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  constexpr std::uint64_t kUnreliable = kDatagram | IBV_QP_EX_WITH_RDMA_WRITE |
                                        IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                        IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
  switch (type) {
    case IBV_QPT_UD:
      return kDatagram;
    case IBV_QPT_UC:
      return kUnreliable;
    case IBV_QPT_RAW_PACKET:
      return IBV_QP_EX_WITH_SEND;
    case IBV_QPT_RC:
    case IBV_QPT_XRC_SEND:
      return kUnreliable | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
             IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV |
             IBV_QP_EX_WITH_ATOMIC_WRITE | newer::kQpExWithFlush;
    default:
      return 0;
  }
}

void set_send_functions(Qp& qp) {
  qp.wr_start = wr_start;
  qp.wr_complete = wr_complete;
  qp.wr_abort = wr_abort;
  qp.wr_send = wr_send;
  qp.wr_send_imm = wr_send_imm;
  qp.wr_send_inv = wr_send_inv;
  qp.wr_send_tso = wr_send_tso;
  qp.wr_rdma_write = wr_rdma_write;
  qp.wr_rdma_write_imm = wr_rdma_write_imm;
  qp.wr_rdma_read = wr_rdma_read;
  qp.wr_atomic_cmp_swp = wr_atomic_cmp_swp;
  qp.wr_atomic_fetch_add = wr_atomic_fetch_add;
  // Programs ask by these whether there is such an operation (librpma does).
  if ((qp.batch->operations & IBV_QP_EX_WITH_ATOMIC_WRITE) != 0) {
    qp.wr_atomic_write = wr_atomic_write;
  }
  if ((qp.batch->operations & newer::kQpExWithFlush) != 0) qp.wr_flush = wr_flush;
  qp.wr_bind_mw = wr_bind_mw;
  qp.wr_local_inv = wr_local_inv;
  qp.wr_set_ud_addr = wr_set_ud_addr;
  qp.wr_set_xrc_srqn = wr_set_xrc_srqn;
  qp.wr_set_sge = wr_set_sge;
  qp.wr_set_sge_list = wr_set_sge_list;
  qp.wr_set_inline_data = wr_set_inline_data;
  qp.wr_set_inline_data_list = wr_set_inline_data_list;
}

}  // namespace verbena::front

using namespace verbena::front;

VERBENA_EXPORT ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  if (!is_ours(qp)) return real::call<"ibv_qp_to_qp_ex", "IBVERBS_1.6">(ibv_qp_to_qp_ex, qp);
  Qp& ours = qp_of(qp);
  return ours.batch ? &ours : nullptr;
}
