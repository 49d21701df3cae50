#pragma once

// The machine on which is measured, and how busy it is.

#include <map>
#include <string>
#include <vector>

namespace verbena::bench {

/// "processor", "cores", "kernel", "load before", "verbena": what figures need beside them.
[[nodiscard]] std::map<std::string, std::string> describe_machine();

/// The load of the last minute, as uptime(1) shows it.
[[nodiscard]] std::string load_average();

/// The CPUs that this process may use, at most one of each core.
[[nodiscard]] std::vector<int> separate_cores();

}  // namespace verbena::bench
