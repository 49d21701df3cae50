#pragma once

// Names of files: of any bytes, from a peer that isn't trusted to the screen of a person.

#include <string>
#include <string_view>
#include <vector>

namespace verbena::transfer {

/// The folder in DIR for what isn't complete.
inline constexpr std::string_view kHiddenFolder = ".verbena-receive";

/// The components of a path below DIR. Throws Malformed for one that is empty, too long, absolute,
/// has "." or "..", or names our own folder.
[[nodiscard]] std::vector<std::string> components_of(const std::string& path);

/// For a terminal: what isn't printable UTF-8 is written as \x1b or \n.
[[nodiscard]] std::string printable(std::string_view name);

}  // namespace verbena::transfer
