#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tools/verbena/commands.h"
#include "tools/verbena/environment.h"
#include "tools/verbena/preload.h"
#include "tools/verbena/program_check.h"

namespace verbena::tool {

int run(const RunOptions& options) {
  const auto [settings, unset] = set_variables(options.variables);
  if (!unset.empty()) return fail("run", kExitUsage, unset);

  const PreloadLibrary library = find_preload_library();
  if (!library.problem.empty()) return fail("run", kExitFailure, library.problem);

  const std::string& name = options.command.front();
  const auto program = find_program(name);
  if (!program) {
    return fail("run", kExitNotFound,
                fmt::format("{}: no such program{}", name,
                            name.find('/') == std::string::npos ? " in PATH" : ""));
  }
  if (const auto reason = reason_to_refuse(*program)) return fail("run", kExitRefused, *reason);

  if (const auto problem = prepare_files(settings, options.variables); !problem.empty()) {
    return fail("run", kExitUsage, problem);
  }
  set_preload_environment(library.path);
  std::vector<char*> arguments;
  for (const std::string& argument : options.command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  execvp(program->c_str(), arguments.data());
  return fail("run", kExitRefused, fmt::format("{}: {}", *program, std::strerror(errno)));
}

}  // namespace verbena::tool
