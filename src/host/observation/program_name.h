#pragma once

#include <errno.h>

#include <string>

#include "host/observation/first_line.h"

namespace verbena::host {

/// What this process calls itself. The kernel keeps 15 bytes of a name: where they are the
/// beginning of the program's, it is the program's.
[[nodiscard]] inline std::string program_name() {
  const std::string kept = first_line("/proc/self/comm");
  const std::string whole = program_invocation_short_name;
  return whole.starts_with(kept) ? whole : kept;
}

}  // namespace verbena::host
