#pragma once

// The two ends of each measurement. drive_…() is the end that measures, serve_…() the other one.

#include <string>

#include "tools/bench/ends/control.h"
#include "tools/bench/sample.h"
#include "tools/bench/spec.h"

namespace verbena::bench {

/// What an end works with besides the spec.
struct Meeting {
  Control& control;
  const Socket* listener = nullptr;  // serve: where the other end connects to
  rdma::SocketAddress server;        // drive: the listener's address
  std::string device;                // RDMA; empty: the one that has the socket's address
};

/// The sample, and which device was used.
struct Outcome {
  Sample sample;
  std::string device;
};

[[nodiscard]] Outcome drive_rdma_bandwidth(const Spec& spec, Meeting& meeting);
std::string serve_rdma_bandwidth(const Spec& spec, Meeting& meeting);
[[nodiscard]] Outcome drive_rdma_latency(const Spec& spec, Meeting& meeting);
std::string serve_rdma_latency(const Spec& spec, Meeting& meeting);

[[nodiscard]] Outcome drive_tcp_bandwidth(const Spec& spec, Meeting& meeting);
std::string serve_tcp_bandwidth(const Spec& spec, Meeting& meeting);
[[nodiscard]] Outcome drive_tcp_latency(const Spec& spec, Meeting& meeting);
std::string serve_tcp_latency(const Spec& spec, Meeting& meeting);

[[nodiscard]] Outcome drive_udp_bandwidth(const Spec& spec, Meeting& meeting);
std::string serve_udp_bandwidth(const Spec& spec, Meeting& meeting);
[[nodiscard]] Outcome drive_udp_latency(const Spec& spec, Meeting& meeting);
std::string serve_udp_latency(const Spec& spec, Meeting& meeting);

}  // namespace verbena::bench
