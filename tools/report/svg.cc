#include "tools/report/svg.h"

#include <fmt/format.h>

#include <string_view>

#include "tools/report/text_width.h"
#include "tools/report/wording.h"

namespace verbena::report {
namespace {

// Units of the picture.
constexpr int kWidth = 860, kLeft = 190, kRight = 670, kTop = 74, kRowHeight = 30, kSlant = 14;
constexpr double kLetter = 7.0;  // the width of one, about

constexpr std::string_view kStyle = R"(<style>
  .ground { fill: #ffffff; } .line { stroke: #8b949e; stroke-width: 1.5; }
  text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #24292f; }
  .name { font-weight: 600; font-size: 14px; } .faint { fill: #6e7781; }
  .arrow { stroke: #0969da; stroke-width: 2; fill: none; } .tip { fill: #0969da; }
  .answer { stroke: #57606a; } .answer-tip { fill: #57606a; }
  .lost { stroke: #cf222e; stroke-dasharray: 6 4; } .bad { fill: #cf222e; font-weight: 600; }
  .again { stroke: #9a6700; stroke-width: 3; } .again-tip { fill: #9a6700; }
  .warn { fill: #9a6700; } .good { fill: #1a7f37; }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117; } .line { stroke: #6e7681; }
    text { fill: #e6edf3; } .faint { fill: #8d96a0; }
    .arrow { stroke: #4493f8; } .tip { fill: #4493f8; }
    .answer { stroke: #9198a1; } .answer-tip { fill: #9198a1; }
    .lost { stroke: #f85149; } .bad { fill: #f85149; }
    .again { stroke: #d29922; } .again-tip { fill: #d29922; }
    .warn { fill: #d29922; } .good { fill: #3fb950; }
  }
</style>
)";

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (c == '"') {
      result += "&quot;";
    } else {
      result += c;
    }
  }
  return result;
}

std::string text_at(double x, double y, std::string_view anchor, std::string_view style,
                    std::string_view text) {
  return fmt::format(R"(<text x="{:.0f}" y="{:.0f}" text-anchor="{}" class="{}">{}</text>)"
                     "\n",
                     x, y, anchor, style, escaped(text));
}

/// The tip of an arrow that points to (x, y).
std::string tip(int x, double y, bool rightwards, std::string_view style) {
  const int back = rightwards ? -10 : 10;
  return fmt::format(R"(<path d="M{} {:.1f} l{} -5 l0 10 z" class="{}"/>)"
                     "\n",
                     x, y, back, style);
}

std::string arrow(const Row& row, double y) {
  const bool rightwards = row.side == Side::left;
  const bool answer = row.text.starts_with("ACK") || row.connection;
  const std::string_view line = row.lost    ? "arrow lost"
                                : row.again ? "arrow again"
                                : answer    ? "arrow answer"
                                            : "arrow";
  const std::string_view head = row.again ? "again-tip" : answer ? "answer-tip" : "tip";
  const int from = rightwards ? kLeft : kRight, to = rightwards ? kRight : kLeft;
  const double part = row.lost ? 0.62 : 1.0;
  const double x = from + part * (to - from), down = y + part * kSlant;
  std::string text = fmt::format(R"(<line x1="{}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}"/>)"
                                 "\n",
                                 from, y, x, down, line);
  if (row.lost) {
    text += text_at(x + (rightwards ? 6 : -6), down + 5, rightwards ? "start" : "end", "bad",
                    "✗ " + row.end);
  } else {
    text += tip(to, down, rightwards, head);
  }
  const double middle = from + part * (to - from) / 2;
  text += text_at(middle, y + part * kSlant / 2 - 5, "middle", row.again ? "warn" : "", row.text);
  if (!row.lost && !row.end.empty()) {
    text += text_at(to + (rightwards ? 10 : -10), down + 5, rightwards ? "start" : "end", "warn",
                    row.end);
  }
  return text;
}

/// Beside an end's line: what its program did or heard.
std::string beside(const Row& row, double y) {
  using Mark = Row::Mark;
  const bool left = row.side == Side::left;
  const std::string_view style = row.mark == Mark::done     ? "good"
                                 : row.mark == Mark::failed ? "bad"
                                 : row.mark == Mark::retry  ? "warn"
                                 : row.mark == Mark::folded ? "faint"
                                                            : "";
  const double room = (left ? kLeft : kWidth - kRight) - 24;
  const std::string words = clipped(row.text, static_cast<std::size_t>(room / kLetter * 2));
  std::string text = fmt::format(R"(<circle cx="{}" cy="{:.1f}" r="4" class="line ground"/>)"
                                 "\n",
                                 left ? kLeft : kRight, y + 4);
  // Inside, where there is room for it.
  return text +
         text_at(left ? kLeft + 12 : kRight - 12, y + 9, left ? "start" : "end", style, words);
}

std::string ends(const Conversation& c, double bottom) {
  std::string text;
  text += text_at(kLeft, 28, "middle", "name", program_text(c.left));
  text += text_at(kRight, 28, "middle", "name", program_text(c.right));
  text += text_at(kLeft, 46, "middle", "faint", number_text(c.left));
  text += text_at(kRight, 46, "middle", "faint", number_text(c.right));
  for (const int x : {kLeft, kRight}) {
    text += fmt::format(R"(<line x1="{}" y1="56" x2="{}" y2="{:.0f}" class="line"/>)"
                        "\n",
                        x, x, bottom);
  }
  return text;
}

}  // namespace

std::string svg(const Model& model, const RowOptions& options) {
  const std::vector<Row> rows = rows_of(model, 0, options);
  const int height = kTop + kRowHeight * static_cast<int>(rows.size()) + 20;
  std::string text = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" width="{}" height="{}" role="img">)"
      "\n",
      kWidth, height, kWidth, height);
  text += kStyle;
  text += fmt::format(R"(<rect width="{}" height="{}" rx="8" class="ground"/>)"
                      "\n",
                      kWidth, height);
  text += ends(model.conversations.front(), height - 12);
  double y = kTop;
  for (const Row& row : rows) {
    text += text_at(kLeft - 130, y + 9, "end", "faint",
                    fmt::format("{:.3f} ms", static_cast<double>(row.time) / 1e6));
    text += row.mark == Row::Mark::arrow ? arrow(row, y) : beside(row, y);
    y += kRowHeight;
  }
  return text + "</svg>\n";
}

}  // namespace verbena::report
