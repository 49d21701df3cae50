#include <algorithm>
#include <cerrno>
#include <span>

#include "front/verbs/completion.h"
#include "front/verbs/cq.h"
#include "front/verbs/data_path.h"
#include "front/verbs/nic.h"
#include "front/verbs/room.h"

namespace verbena::front {

namespace {

ibv_wc convert(const engine::Completion& c) {
  ibv_wc wc{};
  wc.wr_id = c.wr_id;
  wc.status = status_of(c);
  wc.opcode = opcode_of(c);
  wc.vendor_err = static_cast<std::uint32_t>(c.status);
  wc.byte_len = c.byte_count;
  wc.wc_flags = flags_of(c);
  wc.imm_data = immediate_of(c);  // or invalidated_rkey
  wc.src_qp = c.source_qpn.value();
  wc.sl = service_level_of(c);
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
