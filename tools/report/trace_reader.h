#pragma once

#include <string>

#include "tools/report/observation.h"

namespace verbena::report {

/// Whether the file begins as a trace does.
[[nodiscard]] bool looks_like_trace(const std::string& beginning);

/// Adds what a trace of VERBENA_TRACE holds; docs/observing.md has its lines. A last line that
/// was cut off is a remark, and so are damaged lines: no object, no time, a PSN above 24 bits,
/// headers of another opcode. Throws std::runtime_error with file and line for what is no trace.
void read_trace(const std::string& path, Observations& to);

}  // namespace verbena::report
