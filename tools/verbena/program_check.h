#pragma once

// Can the preload library reach a program? The dynamic loader drops LD_PRELOAD for some, and
// others have no dynamic loader: better refused with the reason than run without our device.

#include <optional>
#include <string>
#include <string_view>

namespace verbena::tool {

/// The file that execvp(3) would run, or nullopt.
[[nodiscard]] std::optional<std::string> find_program(std::string_view name);

/// Why the preload would not work in the program at `path` (or in the interpreter of a
/// script), with the next step; nullopt when nothing speaks against it.
[[nodiscard]] std::optional<std::string> reason_to_refuse(const std::string& path);

}  // namespace verbena::tool
