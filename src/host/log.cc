#include "host/log.h"

#include <unistd.h>

#include <string>

#include "host/config.h"
#include "system/kernel_calls.h"

namespace verbena::host {

LogLevel log_level() { return config().log; }

void log_line(LogLevel level, std::string_view text) {
  static constexpr std::string_view kNames[] = {"off", "error", "warn", "info", "debug"};
  const std::string line =
      fmt::format("verbena: {}: {}\n", kNames[static_cast<std::size_t>(level)], text);
  // One write: lines of several processes stay whole. Nobody to tell if it fails.
  [[maybe_unused]] const auto n = kernel::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace verbena::host
