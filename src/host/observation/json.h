#pragma once

#include <string>
#include <string_view>

namespace verbena::host {

/// A JSON string, in ASCII.
[[nodiscard]] std::string json_quoted(std::string_view text);

}  // namespace verbena::host
