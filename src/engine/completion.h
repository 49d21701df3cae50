#pragma once

#include <cstdint>

#include "base/numbers.h"
#include "base/time.h"
#include "packet/packet.h"

namespace verbena::engine {

/// Numbered as ibv_wc_status.
enum class CompletionStatus : std::uint8_t {
  success = 0,
  local_length_error = 1,
  local_qp_error = 2,
  local_protection_error = 4,
  flushed = 5,
  window_bind_error = 6,
  bad_response = 7,
  remote_invalid_request = 9,
  remote_access_error = 10,
  remote_operation_error = 11,
  retry_exceeded = 12,
  rnr_retry_exceeded = 13,
  remote_abort = 16,
  general_error = 21,
};

enum class CompletionKind : std::uint8_t {
  send,
  write,
  read,
  compare_swap,
  fetch_add,
  atomic_write,
  flush,
  local_invalidate,
  bind_window,
  receive,
  receive_write_immediate,
};

/// One entry of a completion queue. Plain bytes, no pointers.
struct Completion {
  std::uint64_t wr_id = 0;
  CompletionStatus status = CompletionStatus::success;
  CompletionKind kind = CompletionKind::send;
  bool has_immediate = false;
  bool has_invalidated = false;  // `invalidated` names a key that is no longer valid
  bool has_grh = false;          // the first 40 bytes of the buffer are the GRH
  bool over_ipv4 = false;        // … and it is an IPv4 header behind 20 bytes of nothing
  bool solicited = false;
  packet::Immediate immediate{};
  std::uint32_t byte_count = 0;
  Key invalidated{};
  Qpn qpn{};
  Qpn source_qpn{};  // of a datagram
  Instant at{};      // when it was put into its queue
};

}  // namespace verbena::engine
