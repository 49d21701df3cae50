#pragma once

// The way to another host.

#include <cstdint>
#include <string>
#include <vector>

#include "tools/doctor/check.h"
#include "tools/doctor/connection_probe.h"
#include "tools/doctor/sockets.h"
#include "tools/doctor/udp_probe.h"

namespace verbena::doctor {

/// What was found out about the way to HOST.
struct WayToHost {
  std::string host;       // as the user named it
  std::string address;    // of HOST
  std::string local;      // ours on the way to it
  std::string interface;  // where it leaves; empty: unknown
  ConnectionProbe connection;
  Fate roce_port = Fate::nothing;  // of a datagram to UDP port 4791, if nothing else answered
  PeerAnswer before, after;        // the listener's news, before and after the connection
  std::vector<Probe> path;         // by size, the largest first
};

/// UDP port 4791 both ways, and NAT.
[[nodiscard]] Findings judge_port(const WayToHost& way);
/// Packets of the size that the device sends.
[[nodiscard]] Finding judge_path(const WayToHost& way);
/// Messages by RDMA; nothing if no doctor listens on HOST.
[[nodiscard]] Findings judge_messages(const WayToHost& way);

/// The sizes of IP packets to try, the largest first: as a device of this RoCE MTU sends them, then
/// as those of smaller ones do.
[[nodiscard]] std::vector<std::uint32_t> packet_sizes(std::uint32_t mtu);

[[nodiscard]] Findings check_host(const std::string& host, std::uint16_t port);

}  // namespace verbena::doctor
