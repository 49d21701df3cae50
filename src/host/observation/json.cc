#include "host/observation/json.h"

#include <fmt/format.h>

#include "base/utf8.h"

namespace verbena::host {

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const auto [code, size] = first_code_point(text).value_or(CodePoint{0xfffd, 1});
    const bool valid = code != 0xfffd || size > 1;
    if (code == '"' || code == '\\') {
      out.append("\\").push_back(text.front());
    } else if (!valid || code < 0x20 || (code >= 0x7f && code < 0xa0)) {
      out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(code));
    } else {
      out += text.substr(0, size);
    }
    text.remove_prefix(size);
  }
  return out + "\"";
}

}  // namespace verbena::host
