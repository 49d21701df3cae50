#pragma once

// The files of page/, which the build puts into the program (cmake/VerbenaEmbed.cmake).

#include <string_view>

namespace verbena::bench {

struct PagePart {
  std::string_view text;
  std::string_view sha256;  // as in Content-Security-Policy: base64
};

[[nodiscard]] PagePart page_html();
[[nodiscard]] PagePart page_style();
[[nodiscard]] PagePart page_script();

}  // namespace verbena::bench
