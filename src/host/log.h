#pragma once

#include <fmt/format.h>

#include <string_view>

namespace verbena::host {

/// Ordered: a level shows itself and those before it. VERBENA_LOG sets it; warn by default.
enum class LogLevel { off, error, warn, info, debug };

[[nodiscard]] LogLevel log_level();
/// One line to standard error: "verbena: LEVEL: text".
void log_line(LogLevel level, std::string_view text);

template <typename... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (level <= log_level()) log_line(level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace verbena::host
