#pragma once

// What the user can set: the VERBENA_* variables, each also an option of `verbena run`. The tool
// checks them before it starts a program; the library checks them again, because a program may be
// started without the tool.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "settings/fault_spec.h"

namespace verbena::settings {

/// How frames move.
enum class WireKind {
  automatic,  // between processes of this host by shared memory, else by UDP
  shm,        // the same; queue pairs that would need UDP are refused
  udp,
};

/// Ordered: a level shows itself and those before it.
enum class LogLevel { off, error, warn, info, debug };

/// Statistics as a table for people, not as JSON into a file.
inline constexpr std::string_view kStderr = "-";

struct Settings {
  LogLevel log = LogLevel::warn;        // VERBENA_LOG
  bool only = false;                    // VERBENA_ONLY: hide the devices of real hardware
  WireKind wire = WireKind::automatic;  // VERBENA_WIRE
  std::optional<FaultSpec> faults;      // VERBENA_FAULTS
  std::string pcap;                     // VERBENA_PCAP: a file; empty: none
  std::string trace;                    // VERBENA_TRACE: a file; empty: none
  std::string stats;                    // VERBENA_STATS: a file, or kStderr; empty: none
};

struct Variable {
  std::string_view name;
  std::string_view option;  // of `verbena run`
  std::string_view form;    // of its value
  std::string_view meaning;
  Status (*set)(Settings&, std::string_view value);
};

[[nodiscard]] std::span<const Variable> variables();

/// EINVAL: no such variable, or not a value of it, with those that are.
Status set(Settings& settings, std::string_view name, std::string_view value);

struct Reading {
  Settings settings;
  std::vector<std::string> problems;
};
/// Every VERBENA_* entry of an environment (as in environ).
[[nodiscard]] Reading read_environment(const char* const* environment);

}  // namespace verbena::settings
