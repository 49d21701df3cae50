#pragma once

// Results as CSV (RFC 4180): one line for each figure of each measurement.

#include <string>

#include "tools/bench/results.h"

namespace verbena::bench {

[[nodiscard]] std::string csv_of(const Results& results);

}  // namespace verbena::bench
