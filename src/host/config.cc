#include "host/config.h"

#include <unistd.h>

#include <array>
#include <string_view>
#include <utility>

namespace verbena::host {

namespace {

constexpr std::string_view kPrefix = "VERBENA_";
constexpr std::string_view kKnown =
    "VERBENA_LOG (off, error, warn, info, debug), VERBENA_ONLY (0, 1)";

constexpr std::array<std::pair<std::string_view, LogLevel>, 5> kLevels{{
    {"off", LogLevel::off},
    {"error", LogLevel::error},
    {"warn", LogLevel::warn},
    {"info", LogLevel::info},
    {"debug", LogLevel::debug},
}};

bool set_log(Config& c, std::string_view value) {
  for (const auto& [name, level] : kLevels) {
    if (value != name) continue;
    c.log = level;
    return true;
  }
  return false;
}

bool set_only(Config& c, std::string_view value) {
  c.only = value == "1";
  return value == "0" || value == "1";
}

bool set(Config& c, std::string_view name, std::string_view value) {
  if (name == "VERBENA_LOG") return set_log(c, value);
  if (name == "VERBENA_ONLY") return set_only(c, value);
  return false;
}

Config read() {
  Config c;
  for (char** e = environ; e != nullptr && *e != nullptr; ++e) {
    const std::string_view entry{*e};
    if (!entry.starts_with(kPrefix)) continue;
    const auto equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    if (!set(c, entry.substr(0, equals), entry.substr(equals + 1)) && !c.problem) {
      c.problem = fmt::format("{}: unknown variable or value; valid are {}", entry, kKnown);
    }
  }
  return c;
}

}  // namespace

const Config& config() {
  static const Config* const kConfig = new Config{read()};
  return *kConfig;
}

}  // namespace verbena::host
