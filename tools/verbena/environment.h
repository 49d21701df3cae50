#pragma once

// The environment that a program needs to find our devices: `verbena run` starts it there,
// `verbena env` prints it.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "settings/settings.h"
#include "tools/verbena/commands.h"

namespace verbena::tool {

/// Sets in this process what the options say; the first complaint about any VERBENA_* variable.
struct SettingsOrProblem {
  settings::Settings settings;
  std::string problem;  // empty: all is well
};
[[nodiscard]] SettingsOrProblem set_variables(const VariableOptions& options);

/// Makes the names of the files that the variables name absolute, and the files that the options
/// name empty: those of the variables may have what earlier programs wrote. The first complaint, or
/// "".
[[nodiscard]] std::string prepare_files(const settings::Settings& settings,
                                        const VariableOptions& options);

struct EnvironmentEntry {
  std::string name;
  std::string value;
};

/// The reader of the printed variables.
enum class EnvironmentFormat {
  shell,   // eval "$(verbena env)"
  docker,  // docker run --env-file FILE, podman's too
  github,  // >> "$GITHUB_ENV"
  systemd  // below [Service]
};

/// nullopt: no such format.
[[nodiscard]] std::optional<EnvironmentFormat> environment_format(std::string_view name);

/// A line for each.
[[nodiscard]] std::string format_environment(const std::vector<EnvironmentEntry>& entries,
                                             EnvironmentFormat format);

}  // namespace verbena::tool
