#include "tools/verbena/library_view.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "tools/verbena/preload.h"

namespace verbena::tool {

void enter_library_view(char** argv) {
  const PreloadLibrary library = find_preload_library();
  if (!library.problem.empty()) throw std::runtime_error{library.problem};
  // `verbena env` may have set these for this shell; they are meant for other programs.
  for (const char* const file : {"VERBENA_PCAP", "VERBENA_TRACE", "VERBENA_STATS"}) unsetenv(file);
  if (is_preloaded(library.path)) return;
  set_preload_environment(library.path);
  execv("/proc/self/exe", argv);
  throw std::runtime_error{fmt::format("/proc/self/exe: {}", std::strerror(errno))};
}

nlohmann::json read_library_file(std::string_view name) {
  const std::string path = fmt::format("/sys/module/verbena/{}", name);
  std::ifstream file{path};
  if (!file) throw std::runtime_error{fmt::format("{}: {}", path, std::strerror(errno))};
  try {
    return nlohmann::json::parse(file);
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error{fmt::format(
        "{}: {}; are this program and its library of different versions?", path, error.what())};
  }
}

}  // namespace verbena::tool
