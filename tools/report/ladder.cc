#include "tools/report/ladder.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "tools/report/text_width.h"
#include "tools/report/wording.h"

namespace verbena::report {
namespace {

constexpr std::size_t kWidth = 76;                        // between the two ends
constexpr std::size_t kShaft = 3;                         // the shortest shaft of an arrow
constexpr std::string_view kMargin = "                ";  // as wide as the time and its unit

constexpr std::string_view kRed = "\033[31m", kYellow = "\033[33m", kGreen = "\033[32m",
                           kDim = "\033[2m", kPlain = "\033[0m";

std::string_view colour_of(const Row& row) {
  using Mark = Row::Mark;
  if (row.lost || row.mark == Mark::failed) return kRed;
  if (row.again || row.mark == Mark::retry || !row.end.empty()) return kYellow;
  if (row.mark == Mark::done) return kGreen;
  return row.mark == Mark::folded || row.connection ? kDim : "";
}

std::string_view sign_of(Row::Mark mark) {
  switch (mark) {
    case Row::Mark::post_send:
      return "●";
    case Row::Mark::post_receive:
      return "○";
    case Row::Mark::done:
      return "✔";
    case Row::Mark::failed:
      return "✘";
    case Row::Mark::retry:
      return "↻";
    case Row::Mark::state:
      return "◇";
    case Row::Mark::folded:
      return "⋮";
    case Row::Mark::arrow:
      break;
  }
  return "│";
}

std::string repeated(std::string_view piece, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += piece;
  return text;
}

/// What is written into an arrow may not be longer than it.
constexpr std::size_t kMostText = kWidth - kShaft - 6;

std::string arrow(const Row& row) {
  const std::string_view line = row.again ? "═" : "─";
  const std::string text = " " + clipped(row.text, kMostText) + " ";
  const std::size_t used = 1 + width(text);
  const bool rightwards = row.side == Side::left;
  std::string inside;
  if (row.lost) {
    const std::string end = " " + clipped(row.end, kWidth - used - kShaft - 2);
    const std::size_t shaft = std::max(kShaft, (kWidth - used) / 2);
    const std::size_t room = kWidth - used;
    const std::size_t drawn = std::min(shaft, room > width(end) + 1 ? room - width(end) - 1 : 1);
    const std::string blank(room - drawn - 1 - width(end), ' ');
    inside = rightwards ? fmt::format("{}{}{}✗{}{}", line, text, repeated(line, drawn), end, blank)
                        : fmt::format("{}{} ✗{}{}{}", blank, end.substr(1), repeated(line, drawn),
                                      text, line);
  } else {
    std::string end = row.end.empty() ? "" : clipped(row.end, kWidth - used - kShaft - 1) + " ";
    if (!end.empty()) end.insert(0, " ");
    const std::size_t taken = used + width(end) + 1;
    const std::size_t shaft = taken < kWidth ? kWidth - taken : 0;
    inside = rightwards ? fmt::format("{}{}{}{}▶", line, text, repeated(line, shaft), end)
                        : fmt::format("◀{}{}{}{}", end, repeated(line, shaft), text, line);
  }
  return rightwards ? fmt::format("├{}│", inside) : fmt::format("│{}┤", inside);
}

std::string beside(const Row& row) {
  const std::string text = clipped(row.text, kWidth - 2);
  const std::string_view sign = sign_of(row.mark);
  const std::string blank(kWidth - width(text) - 1, ' ');
  if (row.side == Side::left || row.mark == Row::Mark::folded) {
    return fmt::format("{} {}{}│", sign, text, blank);
  }
  return fmt::format("│{}{} {}", blank, text, sign);
}

std::string time_text(Time time) {
  return fmt::format("{:>11.3f} ms  ", static_cast<double>(time) / 1e6);
}

// A queue pair with a full IPv6 address is as long as this; then the right head moves aside.
constexpr std::size_t kMostHead = 70;

/// Two texts over the two ends, each at most `most` columns wide.
std::string heads(std::string_view left, std::string_view right, std::size_t most) {
  const std::string first = clipped(left, most), second = clipped(right, most);
  const std::size_t used = width(first) + width(second);
  const std::size_t blank = used + 2 < kWidth + 2 ? kWidth + 2 - used : 2;
  return fmt::format("{}{}{}{}\n", kMargin, first, std::string(blank, ' '), second);
}

std::string place_of(const End& end) {
  std::string text = number_text(end);
  if (!end.device.empty()) text += ", " + printable(end.device);
  if (!end.address.empty()) text += ", " + printable(end.address);
  return text;
}

}  // namespace

std::string ladder(const Model& model, const RowOptions& options, bool colour) {
  std::string text;
  const std::size_t all = model.conversations.size();
  const std::size_t count = options.ladders == 0 ? all : std::min(all, options.ladders);
  for (std::uint32_t i = 0; i < count; ++i) {
    const Conversation& c = model.conversations[i];
    if (i > 0) text += "\n";
    text += heads(program_text(c.left), program_text(c.right), kWidth / 2);
    text += heads(place_of(c.left), place_of(c.right), kMostHead);
    for (const Row& row : rows_of(model, i, options)) {
      const std::string_view shade = colour ? colour_of(row) : "";
      const std::string line = row.mark == Row::Mark::arrow ? arrow(row) : beside(row);
      text +=
          fmt::format("{}{}{}{}\n", time_text(row.time), shade, line, shade.empty() ? "" : kPlain);
    }
  }
  if (count < all) {
    text +=
        fmt::format("\n{} more; verbena report FILE --qp QPN shows one of a trace (--trace FILE)\n",
                    count_text(all - count, "conversation"));
  }
  return text;
}

}  // namespace verbena::report
