// The extended completion queue: completions are looked at one by one, and a program reads the
// fields that it asked for when it made the queue.

#include <fmt/format.h>

#include <cerrno>
#include <ctime>
#include <span>

#include "front/verbs/completion.h"
#include "front/verbs/context.h"
#include "front/verbs/cq.h"
#include "front/verbs/guarded.h"
#include "front/verbs/nic.h"
#include "host/clock.h"

namespace verbena::front {

namespace {

// ---- polling. A program that calls end_poll after a start_poll that failed is forgiven.

int show(Cq& cq, std::size_t taken) {
  if (taken == 0) return ENOENT;
  cq.wr_id = cq.current.wr_id;
  cq.status = status_of(cq.current);
  return 0;
}

void finish(Cq& cq) {
  cq.polling = false;
  if (!cq.single_threaded) cq.extended.unlock();
}

int start_poll(ibv_cq_ex* ibcq, ibv_poll_cq_attr* attr) noexcept {
  Cq& cq = cq_of(ibcq);
  if (attr->comp_mask != 0 || !is_live(cq.nic)) return EINVAL;
  if (!cq.single_threaded) cq.extended.lock();
  cq.polling = true;
  const int code = show(cq, cq.nic->poll(*cq.queue, std::span{&cq.current, 1}));
  if (code != 0) finish(cq);
  return code;
}

int next_poll(ibv_cq_ex* ibcq) noexcept {
  Cq& cq = cq_of(ibcq);
  if (!is_live(cq.nic)) return EINVAL;
  return show(cq, host::Nic::take(*cq.queue, std::span{&cq.current, 1}));
}

void end_poll(ibv_cq_ex* ibcq) noexcept {
  Cq& cq = cq_of(ibcq);
  if (cq.polling) finish(cq);
}

// ---- fields of the completion at hand

ibv_wc_opcode read_opcode(ibv_cq_ex* cq) { return opcode_of(cq_of(cq).current); }
std::uint32_t read_vendor_err(ibv_cq_ex* cq) {
  return static_cast<std::uint32_t>(cq_of(cq).current.status);
}
unsigned read_wc_flags(ibv_cq_ex* cq) { return flags_of(cq_of(cq).current); }
std::uint32_t read_byte_len(ibv_cq_ex* cq) { return cq_of(cq).current.byte_count; }
__be32 read_imm_data(ibv_cq_ex* cq) { return immediate_of(cq_of(cq).current); }
std::uint32_t read_qp_num(ibv_cq_ex* cq) { return cq_of(cq).current.qpn.value(); }
std::uint32_t read_src_qp(ibv_cq_ex* cq) { return cq_of(cq).current.source_qpn.value(); }

// RoCE has no LIDs, and the service level of an Ethernet frame doesn't reach a socket.
std::uint32_t read_slid(ibv_cq_ex*) { return 0; }
std::uint8_t read_sl(ibv_cq_ex* cq) { return service_level_of(cq_of(cq).current); }
std::uint8_t read_dlid_path_bits(ibv_cq_ex*) { return 0; }

std::uint64_t nanoseconds(const engine::Completion& c) {
  return static_cast<std::uint64_t>(c.at.time_since_epoch().count());
}

std::uint64_t read_completion_ts(ibv_cq_ex* cq) { return nanoseconds(cq_of(cq).current); }

/// By how the two clocks differ now.
std::uint64_t read_completion_wallclock_ns(ibv_cq_ex* cq) {
  timespec wall{};
  clock_gettime(CLOCK_REALTIME, &wall);
  const auto now = static_cast<std::uint64_t>(host::now().time_since_epoch().count());
  const auto ago = now - nanoseconds(cq_of(cq).current);
  return static_cast<std::uint64_t>(wall.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(wall.tv_nsec) - ago;
}

// ---- set-up

constexpr std::uint64_t kFields = std::uint64_t{IBV_WC_STANDARD_FLAGS} |
                                  IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                                  IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
constexpr std::uint32_t kKnownCqFlags =
    IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;

Status check(const ibv_context* context, const ibv_cq_init_attr_ex& attr) {
  constexpr std::uint32_t kMask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
  if (const std::uint32_t bits = attr.comp_mask & ~kMask; bits != 0) {
    return Error{EINVAL, fmt::format("comp_mask {:#x}: {:#x} is unknown", attr.comp_mask, bits)};
  }
  if (const std::uint64_t bits = attr.wc_flags & ~kFields; bits != 0) {
    return Error{EOPNOTSUPP, fmt::format("wc_flags {:#x}: completions of this device don't have "
                                         "{:#x} (CVLAN 0x100, flow tag 0x200, tag matching 0x400)",
                                         attr.wc_flags, bits)};
  }
  const bool flagged = (attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0;
  if (flagged && (attr.flags & ~kKnownCqFlags) != 0) {
    return Error{EOPNOTSUPP, fmt::format("flags {:#x}: {:#x} is not supported", attr.flags,
                                         attr.flags & ~kKnownCqFlags)};
  }
  if ((attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0 &&
      (attr.parent_domain == nullptr || attr.parent_domain->context != context)) {
    return Error{EINVAL, "parent_domain must be a domain of the same context"};
  }
  return Ok{};
}

/// Only what was asked for can be read, as on other devices.
void set_functions(ibv_cq_ex& cq, std::uint64_t fields) {
  const auto set = [&](std::uint64_t field, auto& to, auto function) {
    if ((fields & field) != 0) to = function;
  };
  cq.start_poll = start_poll;
  cq.next_poll = next_poll;
  cq.end_poll = end_poll;
  cq.read_opcode = read_opcode;
  cq.read_vendor_err = read_vendor_err;
  cq.read_wc_flags = read_wc_flags;
  set(IBV_WC_EX_WITH_BYTE_LEN, cq.read_byte_len, read_byte_len);
  set(IBV_WC_EX_WITH_IMM, cq.read_imm_data, read_imm_data);
  set(IBV_WC_EX_WITH_QP_NUM, cq.read_qp_num, read_qp_num);
  set(IBV_WC_EX_WITH_SRC_QP, cq.read_src_qp, read_src_qp);
  set(IBV_WC_EX_WITH_SLID, cq.read_slid, read_slid);
  set(IBV_WC_EX_WITH_SL, cq.read_sl, read_sl);
  set(IBV_WC_EX_WITH_DLID_PATH_BITS, cq.read_dlid_path_bits, read_dlid_path_bits);
  set(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, cq.read_completion_ts, read_completion_ts);
  set(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK, cq.read_completion_wallclock_ns,
      read_completion_wallclock_ns);
}

}  // namespace

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) {
  return guarded("ibv_create_cq_ex", [&]() -> Result<ibv_cq_ex*> {
    if (const Status s = check(context, *attr); !s) return s.error();
    const std::uint32_t flags =
        (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? attr->flags : 0;
    using Overrun = host::CompletionQueue::Overrun;
    const Result<Cq*> cq = create_cq(
        context, {.entries = attr->cqe,
                  .user = attr->cq_context,
                  .channel = attr->channel,
                  .vector = attr->comp_vector,
                  .overrun = (flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0 ? Overrun::ignored
                                                                              : Overrun::fails});
    if (!cq) return cq.error();
    (*cq)->single_threaded = (flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0;
    set_functions(**cq, attr->wc_flags);
    return *cq;
  });
}

}  // namespace verbena::front
