#include "tools/bench/page.h"

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

#include "tools/bench/page_parts.h"
#include "tools/bench/results_json.h"

namespace verbena::bench {
namespace {

/// What stands before `mark`, which is in the page's source exactly once; `text` goes on behind it.
std::string_view take_until(std::string_view& text, std::string_view mark) {
  const std::size_t at = text.find(mark);
  if (at == std::string_view::npos) throw std::logic_error("page.html has no " + std::string{mark});
  const std::string_view before = text.substr(0, at);
  text.remove_prefix(at + mark.size());
  return before;
}

/// In which no tag can begin or end.
std::string as_data(const Results& results) {
  std::string text;
  for (const char c : json_of(results).dump()) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

// The browser runs only the script whose hash is named, and opens no connection.
std::string page_of(const Results& results) {
  const PagePart style = page_style();
  const PagePart script = page_script();
  std::string_view html = page_html().text;
  std::string out;
  const auto put = [&out, &html](std::string_view mark, std::string_view text) {
    out += take_until(html, mark);
    out += text;
  };
  put("@STYLE_HASH@", style.sha256);
  put("@SCRIPT_HASH@", script.sha256);
  put("@STYLE@", style.text);
  put("@DATA@", as_data(results));
  put("@SCRIPT@", script.text);
  out += html;
  return out;
}

}  // namespace verbena::bench
