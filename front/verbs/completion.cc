#include "front/verbs/completion.h"

#include <cstring>

#include "front/verbs/newer_verbs.h"

namespace verbena::front {

ibv_wc_opcode opcode_of(const engine::Completion& c) {
  switch (c.kind) {
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
      return IBV_WC_ATOMIC_WRITE;
    case engine::CompletionKind::flush:
      return newer::kWcFlush;
    case engine::CompletionKind::receive:
      return IBV_WC_RECV;
    case engine::CompletionKind::receive_write_immediate:
      return IBV_WC_RECV_RDMA_WITH_IMM;
  }
  return IBV_WC_SEND;
}

unsigned flags_of(const engine::Completion& c) {
  unsigned flags = 0;
  if (c.has_immediate) flags |= IBV_WC_WITH_IMM;
  if (c.has_invalidated) flags |= IBV_WC_WITH_INV;
  if (c.has_grh) flags |= IBV_WC_GRH;
  return flags;
}

std::uint8_t service_level_of(const engine::Completion& c) {
  constexpr std::uint8_t kUdpOverIpv6 = 8 | 1;
  constexpr std::uint8_t kUdpOverIpv4 = 8 | 2;
  if (!c.has_grh) return 0;
  return c.over_ipv4 ? kUdpOverIpv4 : kUdpOverIpv6;
}

std::uint32_t immediate_of(const engine::Completion& c) {
  if (c.has_invalidated) return c.invalidated.value();
  std::uint32_t bytes = 0;
  if (c.has_immediate) std::memcpy(&bytes, c.immediate.data(), sizeof bytes);
  return bytes;
}

}  // namespace verbena::front
