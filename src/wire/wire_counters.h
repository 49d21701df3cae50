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

  PortTraffic& operator+=(const PortTraffic& other) {
    sent_packets += other.sent_packets;
    sent_bytes += other.sent_bytes;
    received_packets += other.received_packets;
    received_bytes += other.received_bytes;
    receive_errors += other.receive_errors;
    send_errors += other.send_errors;
    return *this;
  }
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

  WireCounters& operator+=(const WireCounters& other) {
    frames_sent += other.frames_sent;
    frames_received += other.frames_received;
    send_errors += other.send_errors;
    icrc_errors += other.icrc_errors;
    malformed += other.malformed;
    socket_drops += other.socket_drops;
    handed_over += other.handed_over;
    handover_drops += other.handover_drops;
    handover_received += other.handover_received;
    foreign_probes += other.foreign_probes;
    for (const PortTraffic& p : other.ports) port(p.interface) += p;
    return *this;
  }

  PortTraffic& port(unsigned interface) {
    for (PortTraffic& p : ports) {
      if (p.interface == interface) return p;
    }
    return ports.emplace_back(PortTraffic{.interface = interface});
  }
};

}  // namespace verbena::wire
