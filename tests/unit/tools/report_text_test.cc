// Texts of a report: what a file may not do to the terminal, and words that fit their numbers.

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/tools/report_models.h"
#include "tools/report/ladder.h"
#include "tools/report/page_columns.h"
#include "tools/report/svg.h"
#include "tools/report/text_width.h"
#include "tools/report/wording.h"

namespace verbena::report {
namespace {

// A control character of one byte, one of two (CSI), a direction, half a letter.
constexpr auto kHostile =
    "a\x1b"
    "b\u009b"
    "c\u202e"
    "d\u2066"
    "e\u200f"
    "f\xe2\x86";
constexpr auto kShown = "a?b?c?d?e?f??";

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(Printable, ReplacesWhatIsObeyed) {
  EXPECT_EQ(printable(kHostile), kShown);
  EXPECT_EQ(printable("Übung → 100 µs\u00a0…"), "Übung → 100 µs\u00a0…");
}

TEST(Printable, HoldsInEveryPicture) {
  Model model = testing::lossy_model(1, 3);
  model.conversations[0].left.program = kHostile;
  model.conversations[0].left.device = kHostile;
  for (Event& e : model.events) e.note = kHostile;
  const auto columns = columns_of(model);
  for (const std::string& text :
       {ladder(model, {}, false), svg(model, {}), std::string{columns.begin(), columns.end()}}) {
    EXPECT_TRUE(has(text, kShown));
    constexpr auto kEscape = "\033b";
    for (const char* part : {kEscape, "\u009b", "\u202e", "\u2066", "\u200f"}) {
      EXPECT_FALSE(has(text, part)) << part;
    }
  }
}

TEST(Heads, OfLongNamesAreClipped) {
  Model model = testing::lossy_model(1, 1);
  model.conversations[0].left.program = std::string(500, 'x');
  model.conversations[0].right.device = std::string(500, 'y');
  const std::string text = ladder(model, {}, false);
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    EXPECT_LE(width(text.substr(at, text.find('\n', at) - at)), 160u);
  }
  EXPECT_FALSE(has(svg(model, {}), std::string(40, 'x')));
}

TEST(Heads, OfTwoFullAddressesAreWhole) {
  Model model = testing::lossy_model(1, 1);
  const std::string address = "fe80:1111:2222:3333:4444:5555:6666:7777";
  model.conversations[0].left.address = model.conversations[0].right.address = address;
  EXPECT_TRUE(has(ladder(model, {}, false), address + "  QP 0x0001a3, vb_lo, " + address));
}

TEST(Ladder, CountsWhatIsMore) {
  const Model model = testing::lossy_model(3, 1);
  const std::size_t rows = rows_of(model, 0, {}).size();
  EXPECT_TRUE(has(ladder(model, {.most = rows - 1}, false), "⋮ 1 line more "));
  EXPECT_TRUE(has(ladder(model, {.most = rows - 2}, false), "⋮ 2 lines more "));
  EXPECT_TRUE(has(ladder(model, {.ladders = 2}, false), "\n1 conversation more; verbena report "));
  EXPECT_TRUE(has(ladder(model, {.ladders = 1}, false), "\n2 conversations more; "));
  EXPECT_TRUE(has(ladder(model, {.ladders = 1}, false), "--qp"));
}

TEST(NumberText, OfASharedReceiveQueueIsHexadecimal) {
  End end;
  end.shared = true;
  end.qpn = 16759319;
  EXPECT_EQ(number_text(end), "SRQ 0xffba17");
}

}  // namespace
}  // namespace verbena::report
