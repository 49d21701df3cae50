#include "tools/verbena/variables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace verbena::tool {
namespace {

constexpr std::string_view kPrefix = "VERBENA_";
constexpr std::array<std::string_view, 2> kSwitch{"0", "1"};
constexpr std::array<std::string_view, 5> kLogLevels{"off", "error", "warn", "info", "debug"};

constexpr std::array<Variable, 2> kVariables{{
    {"VERBENA_LOG", "--log", kLogLevels, "how much is logged to stderr"},
    {"VERBENA_ONLY", "--only", kSwitch, "1 hides the devices of real hardware"},
}};

std::string list_of_variables() {
  std::string text;
  for (const Variable& v : kVariables) {
    text += fmt::format("\n  {}={}  {}", v.name, fmt::join(v.values, "|"), v.meaning);
  }
  return text;
}

}  // namespace

std::span<const Variable> known_variables() { return kVariables; }

std::optional<std::string> problem_with(std::string_view name, std::string_view value) {
  const auto* const known = std::ranges::find(kVariables, name, &Variable::name);
  if (known == kVariables.end()) {
    return fmt::format("{}: no such variable; the valid ones are{}", name, list_of_variables());
  }
  if (std::ranges::find(known->values, value) == known->values.end()) {
    return fmt::format("{}: \"{}\" is not valid; use one of {}", name, value,
                       fmt::join(known->values, ", "));
  }
  return std::nullopt;
}

std::vector<std::string> check_environment(const char* const* environment) {
  std::vector<std::string> problems;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry{*environment};
    const auto equals = entry.find('=');
    if (!entry.starts_with(kPrefix) || equals == std::string_view::npos) continue;
    if (auto problem = problem_with(entry.substr(0, equals), entry.substr(equals + 1))) {
      problems.push_back(std::move(*problem));
    }
  }
  return problems;
}

}  // namespace verbena::tool
