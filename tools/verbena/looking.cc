#include "tools/verbena/looking.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tools/verbena/library_view.h"

namespace verbena::tool {

top::Sample look() {
  top::Sample sample;
  const auto activity = read_library_file("activity");
  sample.at = std::chrono::steady_clock::now();
  sample.wall = std::chrono::system_clock::now();
  try {
    sample.processes = top::processes_of(activity);
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error{fmt::format(
        "a process describes itself in an unknown way ({}); does it use another version "
        "of Verbena?",
        error.what())};
  }
  sample.kernel_ports = top::read_kernel_ports("/sys/class/infiniband");
  return sample;
}

}  // namespace verbena::tool
