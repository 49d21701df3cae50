#pragma once

// What `verbena top --once --json` prints; docs/observing.md has the schema.

#include <nlohmann/json_fwd.hpp>

#include "tools/top/rates.h"

namespace verbena::top {

[[nodiscard]] nlohmann::json as_json(const Pair& looks);

}  // namespace verbena::top
