#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "front/verbs/cq.h"
#include "front/verbs/data_path.h"
#include "front/verbs/nic.h"
#include "front/verbs/room.h"

namespace verbena::front {

namespace {

ibv_wc_opcode opcode_of(engine::CompletionKind kind) {
  switch (kind) {
    case engine::CompletionKind::send:
      return IBV_WC_SEND;
    case engine::CompletionKind::write:
      return IBV_WC_RDMA_WRITE;
    case engine::CompletionKind::read:
      return IBV_WC_RDMA_READ;
    case engine::CompletionKind::compare_swap:
      return IBV_WC_COMP_SWAP;
    case engine::CompletionKind::fetch_add:
      return IBV_WC_FETCH_ADD;
    case engine::CompletionKind::local_invalidate:
      return IBV_WC_LOCAL_INV;
    case engine::CompletionKind::bind_window:
      return IBV_WC_BIND_MW;
    case engine::CompletionKind::atomic_write:
    case engine::CompletionKind::flush:
      break;  // this libibverbs has no names for them, so nobody can have posted one
    case engine::CompletionKind::receive:
      return IBV_WC_RECV;
    case engine::CompletionKind::receive_write_immediate:
      return IBV_WC_RECV_RDMA_WITH_IMM;
  }
  return IBV_WC_SEND;
}

static_assert(static_cast<int>(engine::CompletionStatus::flushed) == IBV_WC_WR_FLUSH_ERR);
static_assert(static_cast<int>(engine::CompletionStatus::rnr_retry_exceeded) ==
              IBV_WC_RNR_RETRY_EXC_ERR);

ibv_wc convert(const engine::Completion& c) {
  ibv_wc wc{};
  wc.wr_id = c.wr_id;
  wc.status = static_cast<ibv_wc_status>(c.status);
  wc.opcode = opcode_of(c.kind);
  wc.vendor_err = static_cast<std::uint32_t>(c.status);
  wc.byte_len = c.byte_count;
  if (c.has_immediate) {
    std::memcpy(&wc.imm_data, c.immediate.data(), c.immediate.size());
    wc.wc_flags |= IBV_WC_WITH_IMM;
  }
  if (c.has_invalidated) {
    wc.invalidated_rkey = c.invalidated.value();
    wc.wc_flags |= IBV_WC_WITH_INV;
  }
  if (c.has_grh) {
    wc.wc_flags |= IBV_WC_GRH;
    wc.src_qp = c.source_qpn.value();
  }
  wc.qp_num = c.qpn.value();
  return wc;
}

}  // namespace

int poll_cq(ibv_cq* ibcq, int num_entries, ibv_wc* wc) noexcept {
  Cq& cq = cq_of(ibcq);
  if (num_entries < 0 || !is_live(cq.nic)) return -EINVAL;
  Room<engine::Completion, 16> batch;
  const std::span<ibv_wc> out{wc, static_cast<std::size_t>(num_entries)};
  std::size_t done = 0;
  while (done < out.size()) {
    const std::size_t wanted = std::min(batch.kSize, out.size() - done);
    const std::span<engine::Completion> taken = batch.first(wanted);
    const std::size_t got = cq.nic->poll(*cq.queue, taken);
    std::ranges::transform(taken.first(got), out.begin() + static_cast<std::ptrdiff_t>(done),
                           convert);
    done += got;
    if (got < wanted) break;
  }
  return static_cast<int>(done);
}

int req_notify_cq(ibv_cq* ibcq, int solicited_only) noexcept {
  Cq& cq = cq_of(ibcq);
  if (!is_live(cq.nic)) return EINVAL;
  cq.nic->arm(*cq.queue, solicited_only != 0);
  return 0;
}

}  // namespace verbena::front
