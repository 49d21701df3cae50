#pragma once

// Results on the terminal.

#include <string>

#include "tools/bench/results.h"

namespace verbena::bench {

[[nodiscard]] std::string table_of(const Results& results);

}  // namespace verbena::bench
