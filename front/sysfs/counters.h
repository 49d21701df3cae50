#pragma once

// The counters of a port, below ports/1 of the device's folder. They are this process' own: its NIC
// lives in it, and nobody else's packets pass there.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/devices/device.h"

namespace verbena::front::sysfs {

/// By the path below ports/1 ("counters/port_xmit_data", "hw_counters/sent_pkts"). nullopt: there
/// is no such counter.
[[nodiscard]] std::optional<std::string> read_counter(const host::Device& device,
                                                      std::string_view path);

/// The paths of all of them.
[[nodiscard]] std::vector<std::string> counter_paths(const host::Device& device);

}  // namespace verbena::front::sysfs
