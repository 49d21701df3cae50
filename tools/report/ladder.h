#pragma once

#include <string>

#include "tools/report/model.h"
#include "tools/report/rows.h"

namespace verbena::report {

/// The model as lines of text, a ladder for each conversation: the left end at the left, time
/// downwards. `colour`: with the escapes of a terminal.
[[nodiscard]] std::string ladder(const Model& model, const RowOptions& options, bool colour);

}  // namespace verbena::report
