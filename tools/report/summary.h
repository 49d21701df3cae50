#pragma once

#include <cstddef>
#include <string>

#include "tools/report/model.h"

namespace verbena::report {

/// What the requests cost and what was wasted, as a table. `most`: rows of requests, those that
/// took longest first; 0: all, in the order of their posts.
[[nodiscard]] std::string summary(const Model& model, std::size_t most);

/// Its last lines: what was sent, and what of it was wasted.
[[nodiscard]] std::string totals(const Model& model);

}  // namespace verbena::report
