#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace verbena::engine {

/// Monotonic, of one queue pair or of the RNIC. Names as the kernel's rxe has them
/// (`rdma statistic`) where it has one.
struct Counters {
  std::uint64_t sent_pkts = 0;
  std::uint64_t sent_bytes = 0;  // ours, as the next one: payload of these packets
  std::uint64_t rcvd_pkts = 0;
  std::uint64_t rcvd_bytes = 0;
  std::uint64_t duplicate_request = 0;
  std::uint64_t out_of_seq_request = 0;
  std::uint64_t rcvd_rnr_err = 0;
  std::uint64_t send_rnr_err = 0;
  std::uint64_t rcvd_seq_err = 0;
  std::uint64_t ack_deferred = 0;  // asked for, and given with a later one
  std::uint64_t retry_exceeded_err = 0;
  std::uint64_t retry_rnr_exceeded_err = 0;
  std::uint64_t completer_retry_err = 0;  // times that the requester went back, but for RNR
  std::uint64_t send_err = 0;
  std::uint64_t rdma_sends = 0;  // SENDs that completed well
  std::uint64_t rdma_recvs = 0;  // receives that did

  // Ours.
  std::uint64_t retransmitted_pkts = 0;  // among sent_pkts: requests sent again
  std::uint64_t timeouts = 0;
  std::uint64_t early_retransmits = 0;
  std::uint64_t cq_overruns = 0;
  std::uint64_t rcvd_cnps = 0;
  std::uint64_t sent_cnps = 0;
  std::uint64_t sent_marks = 0;  // see Pace
  std::uint64_t rcvd_marks = 0;
  // Frames dropped without an answer, by reason.
  std::uint64_t drop_malformed = 0;
  std::uint64_t drop_no_qp = 0;
  std::uint64_t drop_state = 0;
  std::uint64_t drop_source = 0;
  std::uint64_t drop_way = 0;  // from the network, where frames come by rings
  std::uint64_t drop_pkey = 0;
  std::uint64_t drop_service = 0;
  std::uint64_t drop_qkey = 0;
  std::uint64_t drop_no_receive = 0;  // UC, UD: nothing was posted
  std::uint64_t drop_too_long = 0;    // UD: longer than the receive
  std::uint64_t drop_response = 0;    // a response to nothing that is outstanding
  std::uint64_t drop_no_memory = 0;   // the peer will send it again
  std::uint64_t lost_events = 0;      // asynchronous ones, for want of memory
};

using CounterField = std::uint64_t Counters::*;

struct CounterInfo {
  std::string_view name;
  CounterField value;
};

inline constexpr std::array kCounters{
    CounterInfo{"sent_pkts", &Counters::sent_pkts},
    CounterInfo{"rcvd_pkts", &Counters::rcvd_pkts},
    CounterInfo{"sent_bytes", &Counters::sent_bytes},
    CounterInfo{"rcvd_bytes", &Counters::rcvd_bytes},
    CounterInfo{"duplicate_request", &Counters::duplicate_request},
    CounterInfo{"out_of_seq_request", &Counters::out_of_seq_request},
    CounterInfo{"rcvd_rnr_err", &Counters::rcvd_rnr_err},
    CounterInfo{"send_rnr_err", &Counters::send_rnr_err},
    CounterInfo{"rcvd_seq_err", &Counters::rcvd_seq_err},
    CounterInfo{"ack_deferred", &Counters::ack_deferred},
    CounterInfo{"retry_exceeded_err", &Counters::retry_exceeded_err},
    CounterInfo{"retry_rnr_exceeded_err", &Counters::retry_rnr_exceeded_err},
    CounterInfo{"completer_retry_err", &Counters::completer_retry_err},
    CounterInfo{"send_err", &Counters::send_err},
    CounterInfo{"rdma_sends", &Counters::rdma_sends},
    CounterInfo{"rdma_recvs", &Counters::rdma_recvs},
    CounterInfo{"retransmitted_pkts", &Counters::retransmitted_pkts},
    CounterInfo{"timeouts", &Counters::timeouts},
    CounterInfo{"early_retransmits", &Counters::early_retransmits},
    CounterInfo{"cq_overruns", &Counters::cq_overruns},
    CounterInfo{"rcvd_cnps", &Counters::rcvd_cnps},
    CounterInfo{"sent_cnps", &Counters::sent_cnps},
    CounterInfo{"sent_marks", &Counters::sent_marks},
    CounterInfo{"rcvd_marks", &Counters::rcvd_marks},
    CounterInfo{"drop_malformed", &Counters::drop_malformed},
    CounterInfo{"drop_no_qp", &Counters::drop_no_qp},
    CounterInfo{"drop_state", &Counters::drop_state},
    CounterInfo{"drop_source", &Counters::drop_source},
    CounterInfo{"drop_way", &Counters::drop_way},
    CounterInfo{"drop_pkey", &Counters::drop_pkey},
    CounterInfo{"drop_service", &Counters::drop_service},
    CounterInfo{"drop_qkey", &Counters::drop_qkey},
    CounterInfo{"drop_no_receive", &Counters::drop_no_receive},
    CounterInfo{"drop_too_long", &Counters::drop_too_long},
    CounterInfo{"drop_response", &Counters::drop_response},
    CounterInfo{"drop_no_memory", &Counters::drop_no_memory},
    CounterInfo{"lost_events", &Counters::lost_events},
};
static_assert(sizeof(Counters) == kCounters.size() * sizeof(std::uint64_t), "one is not listed");

[[nodiscard]] constexpr std::string_view name_of(CounterField value) {
  for (const CounterInfo& c : kCounters) {
    if (c.value == value) return c.name;
  }
  return "?";
}

constexpr Counters& operator+=(Counters& sum, const Counters& more) {
  for (const CounterInfo& c : kCounters) sum.*c.value += more.*c.value;
  return sum;
}

}  // namespace verbena::engine
