#pragma once

// The VERBENA_* variables that the preload library understands, as `verbena run` offers them.
// The library checks them again: a program may be started without this tool.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::tool {

struct Variable {
  std::string_view name;
  std::string_view option;                   // of `verbena run`
  std::span<const std::string_view> values;  // the valid ones
  std::string_view meaning;
};

[[nodiscard]] std::span<const Variable> known_variables();

/// Why `NAME=VALUE` is not acceptable, with the list of what is; nullopt when it is fine.
[[nodiscard]] std::optional<std::string> problem_with(std::string_view name,
                                                      std::string_view value);

/// The complaints about every VERBENA_* entry of an environment (as in environ).
[[nodiscard]] std::vector<std::string> check_environment(const char* const* environment);

}  // namespace verbena::tool
