#pragma once

// The files that a program under `verbena run` writes for us: captures and the like.

#include <string>

namespace verbena::tool {

struct PreparedOutput {
  std::string path;     // absolute: the program may change its folder
  std::string problem;  // empty: it can be written
};

enum class EarlierContent { kept, discarded };

/// Whether it can be written. What a program that still runs writes to it is kept in any case: a
/// trace is then continued, another file of the new one gets its process id in the name.
[[nodiscard]] PreparedOutput prepare_output(const std::string& path, EarlierContent content);

}  // namespace verbena::tool
