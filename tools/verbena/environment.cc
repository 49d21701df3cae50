#include "tools/verbena/environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "tools/verbena/lab_options.h"
#include "tools/verbena/prepared_output.h"

namespace verbena::tool {
namespace {

void set_variable(const char* name, const std::string& value) {
  if (!value.empty()) setenv(name, value.c_str(), 1);
}

/// For a unit file: systemd.exec(5) for the quotes, systemd.unit(5) for the percent signs.
std::string systemd_quoted(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '%') result += '%';
    result += c;
  }
  return result;
}

}  // namespace

SettingsOrProblem set_variables(const VariableOptions& options) {
  if (options.only) setenv("VERBENA_ONLY", "1", 1);
  set_variable("VERBENA_LOG", options.log);
  set_variable("VERBENA_FAULTS", options.faults);
  set_variable("VERBENA_PCAP", options.pcap);
  set_variable("VERBENA_TRACE", options.trace);
  set_variable("VERBENA_STATS",
               options.stats == "true" ? std::string{settings::kStderr} : options.stats);
  set_variable("VERBENA_WIRE", options.wire);
  const auto [settings, problems] = settings::read_environment(environ);
  return {settings, problems.empty() ? "" : problems.front()};
}

std::string prepare_files(const settings::Settings& s, const VariableOptions& options) {
  struct Named {
    const char* option;
    const char* variable;
    const std::string& path;
    bool given;
  };
  const std::string none;
  const std::string& stats = s.stats == settings::kStderr ? none : s.stats;
  for (const Named& named : {Named{"--pcap", "VERBENA_PCAP", s.pcap, !options.pcap.empty()},
                             Named{"--trace", "VERBENA_TRACE", s.trace, !options.trace.empty()},
                             Named{"--stats", "VERBENA_STATS", stats, !options.stats.empty()}}) {
    if (named.path.empty()) continue;
    const PreparedOutput file =
        prepare_output(named.path, named.given ? EarlierContent::discarded : EarlierContent::kept);
    if (!file.problem.empty()) return fmt::format("{} {}", named.option, file.problem);
    setenv(named.variable, file.path.c_str(), 1);
  }
  return "";
}

std::optional<EnvironmentFormat> environment_format(std::string_view name) {
  if (name == "sh") return EnvironmentFormat::shell;
  if (name == "docker") return EnvironmentFormat::docker;
  if (name == "github") return EnvironmentFormat::github;
  if (name == "systemd") return EnvironmentFormat::systemd;
  return std::nullopt;
}

std::string format_environment(const std::vector<EnvironmentEntry>& entries,
                               EnvironmentFormat format) {
  std::string text;
  for (const auto& [name, value] : entries) {
    switch (format) {
      case EnvironmentFormat::shell:
        text += fmt::format("export {}={}\n", name, shell_quoted({value}));
        break;
      case EnvironmentFormat::docker:
      case EnvironmentFormat::github:  // neither knows quotes
        text += fmt::format("{}={}\n", name, value);
        break;
      case EnvironmentFormat::systemd:
        text += fmt::format("Environment=\"{}={}\"\n", name, systemd_quoted(value));
        break;
    }
  }
  return text;
}

}  // namespace verbena::tool
