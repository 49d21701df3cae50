#pragma once

// Addresses of our devices at which somebody else has the UDP port of RoCE: only processes of this
// user on this host are reached from there.

#include <optional>
#include <string>
#include <vector>

#include "base/ip_address.h"

namespace verbena::host {

struct TakenPort {
  std::string device;
  IpAddress address;
  std::string holder;  // who has it, as far as it can be seen
  std::string reason;  // with the next step
};

/// Who has the port at this address, as far as it can be seen.
[[nodiscard]] std::string holder_of_port(const IpAddress& address);

/// Looks at every address of every device of ours.
[[nodiscard]] std::vector<TakenPort> taken_ports();

/// A JSON list of them.
[[nodiscard]] std::string taken_ports_as_json();

}  // namespace verbena::host
