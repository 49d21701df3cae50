#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "settings/settings.h"
#include "tools/verbena/commands.h"
#include "tools/verbena/output_file.h"
#include "tools/verbena/preload.h"
#include "tools/verbena/program_check.h"

namespace verbena::tool {
namespace {

int fail(int status, std::string_view message) {
  fmt::print(stderr, "verbena run: {}\n", message);
  return status;
}

void set_variable(const char* name, const std::string& value) {
  if (!value.empty()) setenv(name, value.c_str(), 1);
}

/// The files that the environment names, whoever put them there. The first complaint, or "".
std::string prepare_files(const settings::Settings& s) {
  struct Named {
    const char* option;
    const char* variable;
    const std::string& path;
  };
  const std::string none;
  const std::string& stats = s.stats == settings::kStderr ? none : s.stats;
  for (const Named& named :
       {Named{"--pcap", "VERBENA_PCAP", s.pcap}, Named{"--trace", "VERBENA_TRACE", s.trace},
        Named{"--stats", "VERBENA_STATS", stats}}) {
    if (named.path.empty()) continue;
    const OutputFile file = prepare_output(named.path);
    if (!file.problem.empty()) return fmt::format("{} {}", named.option, file.problem);
    setenv(named.variable, file.path.c_str(), 1);
  }
  return "";
}

}  // namespace

int run(const RunOptions& options) {
  if (options.only) setenv("VERBENA_ONLY", "1", 1);
  set_variable("VERBENA_LOG", options.log);
  set_variable("VERBENA_FAULTS", options.faults);
  set_variable("VERBENA_PCAP", options.pcap);
  set_variable("VERBENA_TRACE", options.trace);
  set_variable("VERBENA_STATS",
               options.stats == "true" ? std::string{settings::kStderr} : options.stats);
  set_variable("VERBENA_WIRE", options.wire);
  const auto [settings, problems] = settings::read_environment(environ);
  if (!problems.empty()) return fail(kExitUsage, problems.front());

  const PreloadLibrary library = find_preload_library();
  if (!library.problem.empty()) return fail(kExitFailure, library.problem);

  const std::string& name = options.command.front();
  const auto program = find_program(name);
  if (!program) {
    return fail(kExitNotFound, fmt::format("{}: no such program{}", name,
                                           name.find('/') == std::string::npos ? " in PATH" : ""));
  }
  if (const auto reason = reason_to_refuse(*program)) return fail(kExitRefused, *reason);

  if (const auto problem = prepare_files(settings); !problem.empty()) {
    return fail(kExitUsage, problem);
  }
  set_preload_environment(library.path);
  std::vector<char*> arguments;
  for (const std::string& argument : options.command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  execvp(program->c_str(), arguments.data());
  return fail(kExitRefused, fmt::format("{}: {}", *program, std::strerror(errno)));
}

}  // namespace verbena::tool
