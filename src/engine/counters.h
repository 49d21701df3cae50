#pragma once

#include <cstdint>

namespace verbena::engine {

/// Monotonic. Names as the kernel's rxe has them (`rdma statistic`) where it has one.
struct Counters {
  std::uint64_t sent_pkts = 0;
  std::uint64_t rcvd_pkts = 0;
  std::uint64_t duplicate_request = 0;
  std::uint64_t out_of_seq_request = 0;
  std::uint64_t rcvd_rnr_err = 0;
  std::uint64_t send_rnr_err = 0;
  std::uint64_t rcvd_seq_err = 0;
  std::uint64_t retry_exceeded_err = 0;
  std::uint64_t retry_rnr_exceeded_err = 0;
  std::uint64_t completer_retry_err = 0;  // retransmissions, whatever the cause
  std::uint64_t send_err = 0;

  // Ours: frames dropped without an answer, by reason.
  std::uint64_t drop_malformed = 0;
  std::uint64_t drop_no_qp = 0;
  std::uint64_t drop_state = 0;
  std::uint64_t drop_source = 0;
  std::uint64_t drop_pkey = 0;
  std::uint64_t drop_service = 0;
  std::uint64_t drop_qkey = 0;
  std::uint64_t drop_no_receive = 0;  // UC, UD: nothing was posted
  std::uint64_t drop_too_long = 0;    // UD: longer than the receive
  std::uint64_t drop_response = 0;    // a response to nothing that is outstanding
  std::uint64_t drop_no_memory = 0;   // the peer will send it again
  std::uint64_t lost_events = 0;      // asynchronous ones, for want of memory
  std::uint64_t cq_overruns = 0;
  std::uint64_t rcvd_cnps = 0;
  std::uint64_t sent_cnps = 0;
  std::uint64_t sent_marks = 0;  // see Pace
  std::uint64_t rcvd_marks = 0;
  std::uint64_t timeouts = 0;
  std::uint64_t early_retransmits = 0;
};

}  // namespace verbena::engine
