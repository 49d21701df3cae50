#pragma once

#include <string>

#include "tools/report/observation.h"

namespace verbena::report {

/// Whether the file begins as pcapng or classic pcap does.
[[nodiscard]] bool looks_like_capture(const std::string& beginning);

/// Adds the RoCEv2 packets of a capture: pcapng or pcap, of Verbena, tcpdump, Wireshark or a
/// switch; Ethernet (with VLAN tags), raw IP, Linux cooked and loopback frames. What is no RoCEv2
/// is counted in a remark. Throws std::runtime_error with the place of what can't be read.
void read_capture(const std::string& path, Observations& to);

}  // namespace verbena::report
