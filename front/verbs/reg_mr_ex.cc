// ibv_reg_mr_ex: every kind of registration by one struct, and ibv_reg_buf_mr, which is one of
// them.

#include <fmt/format.h>

#include <cstdint>

#include "front/preload/real.h"
#include "front/verbs/buf.h"
#include "front/verbs/context.h"
#include "front/verbs/dmabuf_mr.h"
#include "front/verbs/export.h"
#include "front/verbs/guarded.h"
#include "front/verbs/mr.h"
#include "front/verbs/newer_verbs.h"

namespace verbena::front {

namespace {

using newer::MrInit;

constexpr std::uint64_t kDescriptor = MrInit::kFd | MrInit::kFdOffset;

Status check_mask(std::uint64_t mask) {
  constexpr std::uint64_t kMemory = MrInit::kIova | MrInit::kAddress | MrInit::kBuffer;
  if (const std::uint64_t bits = mask & ~(kMemory | kDescriptor); bits != 0) {
    return Error{EOPNOTSUPP, fmt::format("comp_mask {:#x}: {:#x} is not supported", mask, bits)};
  }
  const bool in_memory = (mask & MrInit::kAddress) != 0 && (mask & kDescriptor) == 0;
  if (!in_memory && mask != (kDescriptor | MrInit::kIova)) {
    return Error{
        EINVAL,
        fmt::format("comp_mask {:#x}: must have either ADDR, or FD, FD_OFFSET and IOVA", mask)};
  }
  return Ok{};
}

Result<ibv_mr*> register_ex(ibv_pd* pd, const MrInit& init) {
  if (const Status s = check_mask(init.comp_mask); !s) return s.error();
  if ((init.comp_mask & MrInit::kFd) != 0) {
    return register_dmabuf(pd, init.fd_offset, init.length, init.iova, init.fd,
                           static_cast<unsigned>(init.access));
  }
  if ((init.comp_mask & MrInit::kBuffer) != 0) {
    if (!is_our_buf(init.buffer)) return Error{EINVAL, "the buffer doesn't belong to this device"};
    const Status s = check_in_buf(init.buffer, pd, init.address, init.length);
    if (!s) return s.error();
  }
  const std::uint64_t iova = (init.comp_mask & MrInit::kIova) != 0
                                 ? init.iova
                                 : reinterpret_cast<std::uintptr_t>(init.address);
  return register_memory(pd, init.address, init.length, iova, static_cast<unsigned>(init.access));
}

}  // namespace

}  // namespace verbena::front

using namespace verbena;
using namespace verbena::front;

VERBENA_EXPORT ibv_mr* ibv_reg_mr_ex(ibv_pd* pd, ibv_mr_init_attr* attr) {
  if (!is_ours(pd)) {
    return real::call<"ibv_reg_mr_ex", "IBVERBS_1.15">(ibv_reg_mr_ex, pd, attr);
  }
  return guarded("ibv_reg_mr_ex",
                 [&] { return register_ex(pd, *reinterpret_cast<const MrInit*>(attr)); });
}

VERBENA_EXPORT ibv_mr* ibv_reg_buf_mr(ibv_pd* pd, ibv_buf* buf, void* addr, std::size_t length,
                                      int access) {
  if (!is_ours(pd)) {
    return real::call<"ibv_reg_buf_mr", "IBVERBS_1.17">(ibv_reg_buf_mr, pd, buf, addr, length,
                                                        access);
  }
  const MrInit init{.length = length,
                    .access = access,
                    .comp_mask = MrInit::kAddress | MrInit::kBuffer,
                    .iova = 0,
                    .address = addr,
                    .fd = -1,
                    .fd_offset = 0,
                    .dma_handle = nullptr,
                    .buffer = buf};
  return guarded("ibv_reg_buf_mr", [&] { return register_ex(pd, init); });
}
