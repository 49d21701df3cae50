#pragma once

#include <string>
#include <string_view>

namespace verbena::host {

/// A JSON string. Bytes that are no UTF-8 become U+FFFD; control characters are escaped.
[[nodiscard]] std::string json_quoted(std::string_view text);

}  // namespace verbena::host
