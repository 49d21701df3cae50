#pragma once

#include <fmt/format.h>

#include <string_view>

#include "settings/settings.h"

namespace verbena::host {

/// VERBENA_LOG sets it.
using settings::LogLevel;

[[nodiscard]] LogLevel log_level();
/// One line to standard error: "verbena: LEVEL: text".
void log_line(LogLevel level, std::string_view text);

template <typename... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (level <= log_level()) log_line(level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace verbena::host
