#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace verbena::wire {

/// What passed one interface, IP and UDP headers included.
struct PortTraffic {
  unsigned interface = 0;
  std::uint64_t sent_packets = 0;
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_packets = 0;
  std::uint64_t received_bytes = 0;
  std::uint64_t receive_errors = 0;  // icrc_errors, malformed and socket_drops of this port
  std::uint64_t send_errors = 0;
};

[[nodiscard]] constexpr std::size_t ip_and_udp_size(bool v4) { return v4 ? 28 : 48; }

/// Monotonic since the wire was created.
struct WireCounters {
  std::uint64_t frames_sent = 0;
  std::uint64_t frames_received = 0;  // given to the sink, however they came
  std::uint64_t send_errors = 0;      // frames the kernel refused
  std::uint64_t icrc_errors = 0;      // dropped: damaged
  std::uint64_t malformed = 0;        // dropped: shorter than a BTH and an ICRC; or to a multicast
                                      // address, but not to the multicast QPN
  std::uint64_t socket_drops = 0;     // lost in front of us: receive buffer full (SO_RXQ_OVFL)
  std::uint64_t handed_over = 0;      // reached us, belonged to another process, passed on
  std::uint64_t handover_drops = 0;   // … and could not be passed on
  std::uint64_t handover_received = 0;  // ours, passed on by another process
  std::uint64_t foreign_probes = 0;     // dropped: steering probe without our registry's nonce
  std::vector<PortTraffic> ports;       // few

  PortTraffic& port(unsigned interface) {
    for (PortTraffic& p : ports) {
      if (p.interface == interface) return p;
    }
    return ports.emplace_back(PortTraffic{.interface = interface});
  }
};

}  // namespace verbena::wire
