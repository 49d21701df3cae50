#pragma once

// Two looks at a made-up machine.

#include <chrono>
#include <string>
#include <utility>

#include "tools/top/rates.h"

namespace verbena::top::test {

inline QueuePair made_pair(std::uint32_t number, std::uint64_t sent_bytes) {
  return {.number = number,
          .service = "RC",
          .state = "RTS",
          .device = "vb_lo",
          .peer = "127.0.0.1",
          .peer_number = number + 1,
          .way = "shm",
          .why = "",
          .send = {128, 7},
          .in_flight = 5,
          .completed = sent_bytes / 1000,
          .receive = {500, 400},
          .send_completions = Queue{200, 3},
          .receive_completions = Queue{200, 1},
          .counters = {{"sent_bytes", sent_bytes}, {"sent_pkts", sent_bytes / 1000}}};
}

inline Process made_process(int pid, std::string program, std::uint64_t sent_bytes) {
  Process process{.pid = pid, .program = std::move(program)};
  process.ports.push_back(
      {.device = "vb_lo",
       .queue_pairs = 1,
       .by_shm = 1,
       .counters = {{"port_xmit_data", sent_bytes / 4},
                    {"port_xmit_packets", sent_bytes / 1000},
                    {"port_rcv_data", 0},
                    {"link_downed", 2}},
       .hardware = {
           {"retransmitted_pkts", sent_bytes / 100'000}, {"send_rnr_err", 0}, {"drop_no_qp", 3}}});
  process.queue_pairs.push_back(made_pair(static_cast<std::uint32_t>(pid), sent_bytes));
  return process;
}

/// Two seconds apart; "busy" has sent 2 MB meanwhile, "idle" nothing.
inline Pair made_looks() {
  const auto begin = std::chrono::steady_clock::time_point{} + std::chrono::hours{1};
  const Port kernel{.device = "mlx5_0",
                    .counters = {{"port_xmit_data", 1000}, {"port_rcv_data", 0}},
                    .hardware = {{"rnr_nak_retry_err", 4}}};
  Pair looks{.before = {.at = begin,
                        .processes = {made_process(11, "idle", 5'000'000),
                                      made_process(22, "busy", 1'000'000)},
                        .kernel_ports = {kernel}},
             .now = {.at = begin + std::chrono::seconds{2},
                     .processes = {made_process(11, "idle", 5'000'000),
                                   made_process(22, "busy", 3'000'000)},
                     .kernel_ports = {kernel}}};
  looks.now.kernel_ports[0].counters["port_xmit_data"] = 1500;
  return looks;
}

}  // namespace verbena::top::test
