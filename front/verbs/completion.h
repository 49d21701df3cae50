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
/// Immediate data, or the key that is no longer valid; 0 where there is neither.
[[nodiscard]] std::uint32_t immediate_of(const engine::Completion& c);

}  // namespace verbena::front
