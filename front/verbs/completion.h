#pragma once

// The engine's completions in the words of the verbs: what ibv_poll_cq() fills and what the
// extended poll's read functions answer.

#include <infiniband/verbs.h>

#include "engine/completion.h"

namespace verbena::front {

[[nodiscard]] inline ibv_wc_status status_of(const engine::Completion& c) {
  static_assert(static_cast<int>(engine::CompletionStatus::flushed) == IBV_WC_WR_FLUSH_ERR);
  static_assert(static_cast<int>(engine::CompletionStatus::rnr_retry_exceeded) ==
                IBV_WC_RNR_RETRY_EXC_ERR);
  return static_cast<ibv_wc_status>(c.status);
}
[[nodiscard]] ibv_wc_opcode opcode_of(const engine::Completion& c);
/// As ibv_wc_flags.
[[nodiscard]] unsigned flags_of(const engine::Completion& c);
/// IBA annex A17.4.5.1: a datagram's completion tells the kind of its packet. Hardware does so in
/// the service level, which RoCE has no other use for, and UCX looks there for where in the GRH the
/// addresses are: bit 3 is UDP, the others the IP header. 0 for other completions.
[[nodiscard]] std::uint8_t service_level_of(const engine::Completion& c);
/// Immediate data, or the key that is no longer valid; 0 where there is neither.
[[nodiscard]] std::uint32_t immediate_of(const engine::Completion& c);

}  // namespace verbena::front
