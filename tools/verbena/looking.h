#pragma once

#include "tools/top/sample.h"

namespace verbena::tool {

/// One look at this machine, in a process that is in the library's view (enter_library_view()).
/// std::runtime_error: the library can't be read.
[[nodiscard]] top::Sample look();

}  // namespace verbena::tool
