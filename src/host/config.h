#pragma once

#include <optional>
#include <string>

#include "host/log.h"

namespace verbena::host {

/// What the VERBENA_* variables say.
struct Config {
  LogLevel log = LogLevel::warn;       // VERBENA_LOG
  bool only = false;                   // VERBENA_ONLY: hide the devices of real hardware
  std::optional<std::string> problem;  // an unknown variable or a malformed value
};

/// Read once, at the first call. A problem is for whoever opens a device to report.
[[nodiscard]] const Config& config();

}  // namespace verbena::host
