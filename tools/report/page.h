#pragma once

// One HTML page that shows a model: it needs no network and no other file. Its source is in page/.

#include <string>

#include "tools/report/model.h"

namespace verbena::report {

[[nodiscard]] std::string page(const Model& model);

}  // namespace verbena::report
