#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "tools/verbena/commands.h"
#include "tools/verbena/environment.h"
#include "tools/verbena/preload.h"

namespace verbena::tool {
namespace {

/// A container or a service has its own folders and its own LD_PRELOAD, not those of this shell.
bool is_elsewhere(EnvironmentFormat format) {
  return format == EnvironmentFormat::docker || format == EnvironmentFormat::systemd;
}

/// The first complaint about files that only the programs will see, or "".
std::string check_absolute(const settings::Settings& s) {
  for (const std::string& file : {s.pcap, s.trace, s.stats}) {
    if (file.empty() || file == settings::kStderr || file.starts_with('/')) continue;
    return fmt::format("{}: name the file by its absolute path, as the program sees it", file);
  }
  return "";
}

std::string value_here(const char* name, EnvironmentFormat format) {
  const char* const value = is_elsewhere(format) ? nullptr : std::getenv(name);
  return value != nullptr ? value : "";
}

std::vector<EnvironmentEntry> entries(const std::string& library, EnvironmentFormat format) {
  std::vector<EnvironmentEntry> found{
      {"LD_PRELOAD", with_preload(library, value_here("LD_PRELOAD", format))},
      {"ASAN_OPTIONS", with_asan_option(value_here("ASAN_OPTIONS", format))}};
  const std::string chosen = value_here(kNcclWithoutGin.name, format);
  found.push_back({kNcclWithoutGin.name, chosen.empty() ? kNcclWithoutGin.value : chosen});
  for (const settings::Variable& variable : settings::variables()) {
    const std::string name{variable.name};
    if (const char* const value = std::getenv(name.c_str())) found.push_back({name, value});
  }
  return found;
}

}  // namespace

int env(const EnvOptions& options) {
  const auto format = environment_format(options.format).value();  // checked with the options
  const auto [settings, problem] = set_variables(options.variables);
  if (!problem.empty()) return fail("env", kExitUsage, problem);
  const PreloadLibrary library = find_preload_library();
  if (!library.problem.empty()) return fail("env", kExitFailure, library.problem);
  const std::string complaint =
      is_elsewhere(format) ? check_absolute(settings) : prepare_files(settings, options.variables);
  if (!complaint.empty()) return fail("env", kExitUsage, complaint);

  const auto found = entries(library.path, format);
  const auto broken = std::ranges::find_if(
      found, [](const EnvironmentEntry& e) { return e.value.find('\n') != std::string::npos; });
  if (broken != found.end() && format != EnvironmentFormat::shell) {
    return fail("env", kExitUsage,
                fmt::format("{}: --format {} can't hold a value with a line break", broken->name,
                            options.format));
  }
  fmt::print("{}", format_environment(found, format));
  return 0;
}

}  // namespace verbena::tool
