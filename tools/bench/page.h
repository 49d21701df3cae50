#pragma once

// One HTML page with plots: it needs no network and no other file. Its source is in page/.

#include <string>

#include "tools/bench/results.h"

namespace verbena::bench {

[[nodiscard]] std::string page_of(const Results& results);

}  // namespace verbena::bench
