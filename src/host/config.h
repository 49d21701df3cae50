#pragma once

#include <optional>
#include <string>

#include "settings/settings.h"

namespace verbena::host {

/// What the VERBENA_* variables say.
struct Config : settings::Settings {
  std::optional<std::string> problem;  // an unknown variable or a malformed value
};

/// Read once, at the first call. A problem is for whoever opens a device to report.
[[nodiscard]] const Config& config();

}  // namespace verbena::host
