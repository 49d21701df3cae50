#pragma once

#include <string>
#include <vector>

#include "tools/report/model.h"
#include "tools/report/observation.h"

namespace verbena::report {

/// Reads traces and captures. Throws std::runtime_error: which file, and what is wrong with it.
[[nodiscard]] Observations read_files(const std::vector<std::string>& paths);

/// Joins what was seen at several points into one story. Throws std::runtime_error when nothing
/// was seen.
[[nodiscard]] Model build_model(const Observations& seen);

/// Around a DisconnectRequest, a change to ERR is no sign of trouble: it says so.
void name_orderly_ends(Model& model);

}  // namespace verbena::report
