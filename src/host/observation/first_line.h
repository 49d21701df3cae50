#pragma once

#include <fstream>
#include <string>

namespace verbena::host {

/// Of a file that the kernel writes; empty: it isn't there.
[[nodiscard]] inline std::string first_line(const std::string& path) {
  std::ifstream file{path};
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace verbena::host
