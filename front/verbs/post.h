#pragma once

// What both ways of posting share: ibv_post_send() and the ibv_wr_* family.

#include <infiniband/verbs.h>

#include <cstdint>

#include "engine/work_request.h"

namespace verbena::front {

/// The errno value of a refusal.
[[nodiscard]] int code_of(engine::PostResult result);
/// Says in the log why a request was refused.
void explain(const char* call, const char* object, std::uint32_t number, std::uint64_t wr_id,
             engine::PostResult result);

/// ibv_send_flags, and whatever else all kinds have.
[[nodiscard]] engine::SendRequest request_of(engine::SendKind kind, std::uint64_t wr_id,
                                             unsigned flags);
[[nodiscard]] engine::Sge sge_of(const ibv_sge& sge);
/// `immediate` as the verbs have it, in the wire's order already.
[[nodiscard]] packet::Immediate immediate_of(__be32 immediate);
/// The window is not NULL.
[[nodiscard]] engine::WindowBinding binding_of(ibv_mw* window, std::uint32_t new_key,
                                               const ibv_mw_bind_info& info);
/// The handle is not NULL.
[[nodiscard]] engine::Destination destination_of(const ibv_ah* ah, std::uint32_t qpn,
                                                 std::uint32_t qkey);

}  // namespace verbena::front
