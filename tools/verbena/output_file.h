#pragma once

// The files that a program under `verbena run` writes for us: captures and the like.

#include <string>

namespace verbena::tool {

struct OutputFile {
  std::string path;     // absolute: the program may change its folder
  std::string problem;  // empty: it can be written
};

/// Makes it empty, unless a program that still runs writes to it: that one keeps it, and the
/// new one's gets its process id in the name.
[[nodiscard]] OutputFile prepare_output(const std::string& path);

}  // namespace verbena::tool
