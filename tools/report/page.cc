#include "tools/report/page.h"

#include <stdexcept>
#include <string_view>

#include "tools/report/compress.h"
#include "tools/report/page_columns.h"
#include "tools/report/page_parts.h"

namespace verbena::report {
namespace {

/// What stands before `mark`, which is in the page's source exactly once; `text` goes on behind it.
std::string_view take_until(std::string_view& text, std::string_view mark) {
  const std::size_t at = text.find(mark);
  if (at == std::string_view::npos) {
    throw std::logic_error("page.html has no " + std::string{mark});
  }
  const std::string_view before = text.substr(0, at);
  text.remove_prefix(at + mark.size());
  return before;
}

}  // namespace

// Texts of traces are data. All of the model stands in the page as base64, in which no tag can
// begin, and the browser runs only the script whose hash is named and opens no connection.
std::string page(const Model& model) {
  const auto bytes = columns_of(model);
  const std::string data = base64(compress(bytes));
  const PagePart style = page_style();
  const PagePart script = page_script();
  std::string_view html = page_html().text;
  std::string out;
  out.reserve(html.size() + style.text.size() + script.text.size() + data.size() + 1000);
  const auto put = [&out, &html](std::string_view mark, std::string_view text) {
    out += take_until(html, mark);
    out += text;
  };
  put("@STYLE_HASH@", style.sha256);
  put("@SCRIPT_HASH@", script.sha256);
  put("@STYLE@", style.text);
  put("@SIZE@", std::to_string(bytes.size()));
  put("@MODEL@", data);
  put("@SCRIPT@", script.text);
  out += html;
  return out;
}

}  // namespace verbena::report
