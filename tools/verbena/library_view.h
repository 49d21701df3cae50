#pragma once

// What only the preload library knows: this program is executed again with it, and then reads the
// files that it shows.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace verbena::tool {

/// Returns in a process that has the library: at once, or after executing this program again.
/// `argv` is this process' own. std::runtime_error: there is no usable library.
void enter_library_view(char** argv);

/// A file below /sys/module/verbena. std::runtime_error: it can't be read.
[[nodiscard]] nlohmann::json read_library_file(std::string_view name);

}  // namespace verbena::tool
