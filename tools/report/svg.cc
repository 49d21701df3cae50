#include "tools/report/svg.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <string_view>
#include <utility>

#include "tools/report/text_width.h"
#include "tools/report/wording.h"

namespace verbena::report {
namespace {

// Units of the picture.
constexpr int kWidth = 840, kLeft = 130, kRight = 720, kTop = 84, kSlant = 14, kBottom = 22;
constexpr int kArrowHeight = 34, kBesideHeight = 26;
constexpr double kLetter = 7.9;  // the width of one, about

constexpr std::string_view kStyle = R"(<style>
  .ground { fill: #ffffff; } .line { stroke: #8b949e; stroke-width: 1.5; }
  text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #24292f; }
  .name { font-weight: 600; font-size: 14px; } .faint { fill: #6e7781; }
  .arrow { stroke: #0969da; stroke-width: 2; } .tip { fill: #0969da; } .post { fill: #24292f; }
  .answer { stroke: #57606a; } .answer-tip { fill: #57606a; }
  .again { stroke: #9a6700; stroke-width: 3; } .again-tip, .warn { fill: #9a6700; }
  .bad-arrow { stroke: #cf222e; } .bad-tip, .bad { fill: #cf222e; } .lost { stroke-dasharray: 6 4; }
  .good { fill: #1a7f37; }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117; } .line { stroke: #6e7681; }
    text, .post { fill: #e6edf3; } .faint { fill: #8d96a0; }
    .arrow { stroke: #4493f8; } .tip { fill: #4493f8; }
    .answer { stroke: #9198a1; } .answer-tip { fill: #9198a1; }
    .again { stroke: #d29922; } .again-tip, .warn { fill: #d29922; }
    .bad-arrow { stroke: #f85149; } .bad-tip, .bad { fill: #f85149; }
    .good { fill: #3fb950; }
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

/// Along the arrow of a row: `part` of the way from its sender.
struct Way {
  bool rightwards;
  double top;

  [[nodiscard]] double x(double part) const {
    return rightwards ? kLeft + part * (kRight - kLeft) : kRight - part * (kRight - kLeft);
  }
  [[nodiscard]] double y(double part) const { return top + part * kSlant; }
  /// Degrees, of a text that stands on it.
  [[nodiscard]] double slope() const {
    const double angle = std::atan2(kSlant, kRight - kLeft) * 180 / std::numbers::pi;
    return rightwards ? angle : -angle;
  }
};

/// The names of its line's, its tip's and its text's style.
struct Look {
  std::string_view line, tip, text;
};

Look look_of(const Row& row) {
  if (row.lost) return {"arrow bad-arrow lost", "bad-tip", ""};
  if (row.refusal) return {"arrow bad-arrow", "bad-tip", "bad"};
  if (row.again) return {"arrow again", "again-tip", "warn"};
  if (row.answer || row.connection) return {"arrow answer", "answer-tip", ""};
  return {"arrow", "tip", ""};
}

std::string arrow(const Row& row, double top) {
  constexpr double kLostAt = 0.66;  // where the arrow breaks
  constexpr int kTip = 10, kAbove = 6;
  const Way way{row.side == Side::left, top};
  const Look look = look_of(row);
  const double end = row.lost ? kLostAt : 1.0;
  const double x = way.x(end), y = way.y(end);
  std::string text =
      fmt::format(R"(<line x1="{:.0f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}"/>)"
                  "\n",
                  way.x(0), way.y(0), x, y, look.line);
  const auto anchor = [&](bool outwards) { return way.rightwards == outwards ? "start" : "end"; };
  const int away = way.rightwards ? kTip : -kTip;
  if (row.lost) {
    text += text_at(x + away / 2.0, y + 5, anchor(true), "bad", "✗ " + row.end);
  } else {
    text += fmt::format(R"(<path d="M{:.0f} {:.1f} l{} -5 l0 10 z" class="{}"/>)"
                        "\n",
                        x, y, -away, look.tip);
    if (!row.end.empty()) text += text_at(x + away, y + 5, anchor(true), "warn", row.end);
  }
  const double middle = way.x(end / 2), above = way.y(end / 2) - kAbove;
  const std::string turned =
      fmt::format("rotate({:.2f} {:.0f} {:.1f})", way.slope(), middle, above);
  text += fmt::format(
      R"(<text x="{:.0f}" y="{:.1f}" text-anchor="middle" class="{}" transform="{}">{}</text>)"
      "\n",
      middle, above, look.text, turned, escaped(row.text));
  return text;
}

/// Beside an end's line: what its program did or heard.
std::string beside(const Row& row, double y) {
  using Mark = Row::Mark;
  const bool left = row.side == Side::left;
  const auto [sign, style] = [&]() -> std::pair<std::string_view, std::string_view> {
    switch (row.mark) {
      case Mark::done:
        return {"✔ ", "good"};
      case Mark::failed:
        return {"✘ ", "bad"};
      case Mark::retry:
        return {"↻ ", "warn"};
      case Mark::folded:
        return {"⋮ ", "faint"};
      case Mark::arrow:
      case Mark::post_send:
      case Mark::post_receive:
      case Mark::state:
        break;
    }
    return {"", ""};
  }();
  const auto room = static_cast<std::size_t>((kRight - kLeft - 24) / kLetter);
  const std::string words = clipped(fmt::format("{}{}", sign, row.text), room);
  return fmt::format(R"(<circle cx="{}" cy="{:.1f}" r="4" class="line {}"/>)"
                     "\n",
                     left ? kLeft : kRight, y, row.mark == Mark::post_send ? "post" : "ground") +
         text_at(left ? kLeft + 12 : kRight - 12, y + 4, left ? "start" : "end", style, words);
}

std::string ends(const Conversation& c, int bottom) {
  constexpr auto kMostName = static_cast<std::size_t>(2 * (kWidth - kRight) / (kLetter * 14 / 13));
  std::string text;
  text += text_at(kLeft, 28, "middle", "name", clipped(program_text(c.left), kMostName));
  text += text_at(kRight, 28, "middle", "name", clipped(program_text(c.right), kMostName));
  text += text_at(kLeft, 46, "middle", "faint", number_text(c.left));
  text += text_at(kRight, 46, "middle", "faint", number_text(c.right));
  for (const int x : {kLeft, kRight}) {
    text += fmt::format(R"(<line x1="{}" y1="56" x2="{}" y2="{}" class="line"/>)"
                        "\n",
                        x, x, bottom);
  }
  return text;
}

}  // namespace

std::string svg(const Model& model, const RowOptions& options) {
  const std::vector<Row> rows = rows_of(model, 0, options);
  std::string inside;
  int y = kTop;
  for (const Row& row : rows) {
    const bool is_arrow = row.mark == Row::Mark::arrow;
    inside += text_at(kLeft - 16, y + 4, "end", "faint",
                      fmt::format("{:.3f} ms", static_cast<double>(row.time) / 1e6));
    inside += is_arrow ? arrow(row, y) : beside(row, y);
    y += is_arrow ? kArrowHeight : kBesideHeight;
  }
  const int height = y + kBottom;
  return fmt::format(
             R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img">)"
             "\n{2}"
             R"(<rect width="{0}" height="{1}" rx="8" class="ground"/>)"
             "\n",
             kWidth, height, kStyle) +
         ends(model.conversations.front(), y) + inside + "</svg>\n";
}

}  // namespace verbena::report
