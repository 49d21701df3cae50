#pragma once

// What becomes of UDP packets of a given size: the answer of `verbena doctor --listen`, or what
// ICMP says.

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "tools/doctor/sockets.h"

namespace verbena::doctor {

enum class Fate {
  nothing,     // no answer
  returned,    // the listener sent it back, in its full size
  refused,     // it arrived; nobody has the port there
  too_big,     // for a link on the way
  prohibited,  // by a firewall that says so
  no_host,     // nobody has the address, or there is no route
  held_back,   // by a firewall of this host
};

struct Probe {
  std::uint32_t bytes = 0;  // of the IP packet
  Fate fate = Fate::nothing;
  std::uint32_t mtu = 0;  // if it is too big: what the router says; 0: nothing
};

/// Sends a packet of each size (at least as long as our mark), without fragments; returns when all
/// have an answer or the time is over.
[[nodiscard]] std::vector<Probe> probe_udp(const Address& to,
                                           const std::vector<std::uint32_t>& sizes,
                                           std::chrono::milliseconds patience);

/// Packets of this socket have the size that they are given, or don't leave.
void never_fragment(const Socket& socket, bool v4);

/// Sends a datagram of probe_udp() back; any other is left alone.
void return_datagram(const Socket& socket);

/// From what the kernel's error queue says. `icmp`: its type and code, or nullopt.
struct IcmpAnswer {
  std::uint8_t type = 0;
  std::uint8_t code = 0;
};
[[nodiscard]] Fate fate_of(int error, const std::optional<IcmpAnswer>& icmp, bool v4);

}  // namespace verbena::doctor
