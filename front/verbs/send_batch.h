#pragma once

// Requests between ibv_wr_start() and ibv_wr_complete(): all of them are posted, or none.

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

#include "engine/rnic.h"

namespace verbena::front {

struct Qp;

struct SendBatch {
  SendBatch(std::uint64_t operations_, std::uint32_t max_inline)
      : operations{operations_}, inlined(max_inline) {}

  const std::uint64_t operations;  // ibv_qp_create_send_ops_flags
  std::mutex mutex;  // from start to complete or abort, and while ibv_post_send() posts
  int error = 0;     // the first; nothing is posted then
  std::uint32_t staged = 0;

  // The request that setters work on; staged when the next begins.
  bool open = false;
  bool addressed = false;  // UD: it has an address
  engine::SendRequest request;
  std::array<engine::Sge, engine::Limits::kMaxSge> sges;
  std::vector<std::uint8_t> inlined;  // a program may reuse its own bytes at once
};

/// What a queue pair of that type can be asked to offer.
[[nodiscard]] std::uint64_t send_operations(ibv_qp_type type);

/// Of a queue pair that was made with send_ops_flags.
void set_send_functions(Qp& qp);

}  // namespace verbena::front
