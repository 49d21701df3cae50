// `verbena send` and `verbena receive`, which lib/verbena/transfer does.

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "settings/settings.h"
#include "tools/verbena/commands.h"
#include "tools/verbena/preload.h"

namespace verbena::tool {

int transfer(const std::string& device, char** argv) {
  const std::string_view command = argv[1];
  const PreloadLibrary library = find_preload_library();
  if (!library.problem.empty()) return fail(command, kExitFailure, library.problem);
  // Our devices need the preload library; other devices need the system's own libraries.
  if (!is_hardware(device)) {
    const auto problems = settings::read_environment(environ).problems;
    if (!problems.empty()) return fail(command, kExitUsage, problems.front());
    set_preload_environment(library.path);
  }
  const std::string program = library.folder + "/transfer";
  execv(program.c_str(), argv);
  return fail(command, kExitFailure,
              fmt::format("{}: {}; build or install Verbena again", program, std::strerror(errno)));
}

}  // namespace verbena::tool
