#include "host/observation/json.h"

#include <fmt/format.h>

namespace verbena::host {

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.append("\\").push_back(c);
    } else if (code < 0x20 || code >= 0x7f) {
      out += fmt::format("\\u{:04x}", code);
    } else {
      out.push_back(c);
    }
  }
  return out + "\"";
}

}  // namespace verbena::host
