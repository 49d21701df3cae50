#pragma once

// Results as JSON, in the schema of docs/bench-schema.json, and back.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/bench/results.h"

namespace verbena::bench {

inline constexpr std::string_view kSchema = "verbena-bench-1";

[[nodiscard]] nlohmann::json json_of(const Results& results);

/// Throws std::runtime_error with words for the user: what is wrong with the text of `name`.
[[nodiscard]] Results results_of(const std::string& text, const std::string& name);

}  // namespace verbena::bench
