#pragma once

#include <string>

#include "tools/report/model.h"
#include "tools/report/rows.h"

namespace verbena::report {

/// A ladder of the first conversation as a picture, readable on light and on dark ground.
[[nodiscard]] std::string svg(const Model& model, const RowOptions& options);

}  // namespace verbena::report
