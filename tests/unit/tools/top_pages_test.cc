#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/unit/tools/top_models.h"
#include "tools/top/pages.h"

namespace verbena::top {
namespace {

using test::made_looks;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Kind = Key::Kind;

std::string text_of(const std::vector<Line>& lines) {
  std::string text;
  for (const Line& line : lines) text += line.text + "\n";
  return text;
}

std::string selected_of(const std::vector<Line>& lines) {
  for (const Line& line : lines) {
    if (line.style == Style::selected) return line.text;
  }
  return "";
}

std::vector<std::string> first_cells(const Table& table) {
  std::vector<std::string> cells;
  for (const Row& row : table.rows) cells.push_back(row.cells[0].text);
  return cells;
}

Key typed(char c) { return {Kind::character, c}; }

class TopPages : public testing::Test {
 protected:
  std::string draw(Size size = {120, 24}) { return text_of(pages_.draw(looks_, size)); }
  std::string selected() { return selected_of(pages_.draw(looks_, {120, 24})); }
  void press(const Key& key) { EXPECT_EQ(pages_.handle(key), Pages::Outcome::stay); }
  void type(std::string_view text) {
    for (const char c : text) press(typed(c));
  }

  Pair looks_ = made_looks();
  Pages pages_{View::processes, 1};
};

TEST(TopTable, BriefNumbersHaveFiveCharactersAtMost) {
  EXPECT_EQ(brief(0), "0");
  EXPECT_EQ(brief(0.25), "0.2");
  EXPECT_EQ(brief(7), "7");
  EXPECT_EQ(brief(999), "999");
  EXPECT_EQ(brief(999.6), "1.00k");
  EXPECT_EQ(brief(12'345), "12.3k");
  EXPECT_EQ(brief(999'700), "1.00M");
  EXPECT_EQ(brief(1.5e9), "1.50G");
}

TEST(TopTable, SortsByValueAndFiltersByAnyCell) {
  Table table{.columns = {{"N", true}, {"NAME"}},
              .rows = {{"a", {{"9", 9}, {"Nine"}}}, {"b", {{"10", 10}, {"ten"}}}}};
  sort(table, 0, Order::falling);
  EXPECT_EQ(first_cells(table), (std::vector<std::string>{"10", "9"}));
  filter(table, "nIN");
  EXPECT_EQ(first_cells(table), (std::vector<std::string>{"9"}));
}

TEST(TopTable, WhatMattersLeastLeavesANarrowScreen) {
  const Table table{.columns = {{"FIRST", false, 0}, {"SECOND", false, 2}, {"THIRD", false, 1}},
                    .rows = {{"a", {{"1"}, {"2"}, {"3"}}}}};
  EXPECT_EQ(layout_of(table, 0).columns.size(), 3u);
  EXPECT_EQ(layout_of(table, 13).columns, (std::vector<std::size_t>{0, 2}));
  EXPECT_EQ(layout_of(table, 1).columns.size(), 1u) << "one always stays";
}

TEST(TopTable, ControlCharactersOfANameStayOutOfTheTerminal) {
  EXPECT_EQ(printable("a\033[2Jb\xc3\xa9"), "a?[2Jb??");
}

TEST_F(TopPages, FitsEveryScreen) {
  for (const View view : {View::processes, View::queue_pairs, View::devices}) {
    for (const Size size : {Size{1, 1}, Size{10, 3}, Size{80, 24}, Size{200, 50}}) {
      Pages pages{view, 1};
      for (int round = 0; round < 2; ++round) {
        const auto lines = pages.draw(looks_, size);
        EXPECT_EQ(lines.size(), size.lines);
        for (const Line& line : lines) EXPECT_LE(line.text.size(), size.columns);
        pages.handle({Kind::enter});
      }
    }
  }
}

TEST_F(TopPages, TheBusiestIsFirstAndTheKeysAreAtTheBottom) {
  const std::string screen = draw();
  EXPECT_LT(screen.find("busy"), screen.find("idle"));
  EXPECT_THAT(screen, AllOf(HasSubstr("2 processes, 2 queue pairs (2 by shm, 0 by udp)"),
                            HasSubstr("sent 1.00MB/s"), HasSubstr("q quit"), HasSubstr("1.00M")));
}

TEST_F(TopPages, SortsByAnotherColumnAndBackwards) {
  pages_.sort_by("pid");
  EXPECT_THAT(draw(), HasSubstr("<> PID down"));
  EXPECT_THAT(selected(), HasSubstr("22"));
  press(typed('r'));
  const std::string screen = draw();
  EXPECT_LT(screen.find("idle"), screen.find("busy"));
  press(typed('>'));
  EXPECT_THAT(draw(), HasSubstr("<> PROGRAM up"));
  press(typed('<'));
  press(typed('<'));
  EXPECT_THAT(draw(), HasSubstr("<> ERRORS up")) << "from the first to the last";
}

TEST_F(TopPages, TheSelectionFollowsItsRow) {
  static_cast<void>(draw());
  press({Kind::down});
  EXPECT_THAT(selected(), HasSubstr("idle"));
  std::swap(looks_.before.processes[0], looks_.before.processes[1]);
  looks_.now.processes[0] = test::made_process(11, "idle", 50'000'000);  // now the first
  EXPECT_THAT(selected(), HasSubstr("idle"));
  looks_.now.processes.erase(looks_.now.processes.begin());
  EXPECT_THAT(selected(), HasSubstr("busy")) << "it is gone";
  looks_.now.processes.clear();
  EXPECT_THAT(draw(), HasSubstr("nothing uses a device"));
}

TEST_F(TopPages, TheFilterIsTypedAndRemoved) {
  static_cast<void>(draw());
  press(typed('/'));
  type("quit");
  EXPECT_THAT(draw(), AllOf(HasSubstr("Filter: quit_"), HasSubstr("no row contains \"quit\"")));
  for (int i = 0; i < 4; ++i) press({Kind::backspace});
  type("IDLE");
  press({Kind::enter});
  EXPECT_THAT(draw(), AllOf(HasSubstr("/ filter=IDLE"), HasSubstr("idle"), Not(HasSubstr("busy"))));
  press({Kind::escape});
  EXPECT_THAT(draw(), HasSubstr("busy"));
}

TEST_F(TopPages, DetailsOfAQueuePair) {
  press(typed('2'));
  EXPECT_THAT(draw(), HasSubstr("[2 queue pairs]"));
  press({Kind::enter});
  EXPECT_THAT(draw(), AllOf(HasSubstr("queue pair 0x000016 of busy (process 22)"),
                            HasSubstr("7 of 128 requests posted, 5 in flight"),
                            HasSubstr("3 of 200 completions wait"), HasSubstr("sent_bytes"),
                            HasSubstr("1.00M")));
  looks_.now.processes.pop_back();
  EXPECT_THAT(draw(), HasSubstr("It is gone")) << "not another one's";
  press({Kind::escape});
  EXPECT_THAT(draw(), HasSubstr("[2 queue pairs]"));
}

TEST_F(TopPages, KeysThatComeAtOnceDoWhatTheyDoOneByOne) {
  static_cast<void>(draw());
  type("2j");
  press({Kind::enter});
  EXPECT_THAT(draw(), HasSubstr("queue pair 0x00000b of idle"));
}

TEST_F(TopPages, DevicesOfTheKernelStandBesideOurs) {
  press(typed('3'));
  EXPECT_THAT(draw(), AllOf(HasSubstr("vb_lo"), HasSubstr("verbena"), HasSubstr("mlx5_0"),
                            HasSubstr("kernel")));
  press({Kind::end});
  EXPECT_THAT(selected(), HasSubstr("mlx5_0"));
  press({Kind::enter});
  EXPECT_THAT(draw(), AllOf(HasSubstr("a device of the kernel"), HasSubstr("rnr_nak_retry_err")));
}

TEST_F(TopPages, IntervalPauseHelpAndTheEnd) {
  press(typed('+'));
  EXPECT_EQ(pages_.interval(), 2);
  press(typed(' '));
  EXPECT_TRUE(pages_.paused());
  EXPECT_THAT(draw(), HasSubstr("paused"));
  press(typed('?'));
  EXPECT_THAT(draw(), HasSubstr("reverse the order"));
  EXPECT_EQ(pages_.handle(typed('q')), Pages::Outcome::quit);
  EXPECT_EQ(pages_.handle({Kind::interrupt}), Pages::Outcome::quit);
}

std::vector<Key> keys_in(std::string input, bool last = false) {
  std::vector<Key> keys;
  for (Key key; take_key(input, last, key);) keys.push_back(key);
  return keys;
}

TEST_F(TopPages, AnyBytesAreKeys) {
  std::mt19937 dice{7};
  static constexpr std::string_view kUsual = "\033[ABCDOH~56123/jk<>r+- \r\t?h";
  for (int i = 0; i < 3000; ++i) {
    std::string input;
    for (auto n = dice() % 9; n > 0; --n) {
      input += dice() % 4 == 0 ? static_cast<char>(dice()) : kUsual[dice() % kUsual.size()];
    }
    for (Key key; take_key(input, true, key);) static_cast<void>(pages_.handle(key));
    EXPECT_TRUE(input.empty());
    const Size size{1 + dice() % 120, 1 + dice() % 40};
    EXPECT_EQ(pages_.draw(looks_, size).size(), size.lines);
  }
}

TEST(TopKeys, SequencesOfTerminals) {
  EXPECT_EQ(
      keys_in("q\033[A\033OB\033[6~\r"),
      (std::vector<Key>{typed('q'), {Kind::up}, {Kind::down}, {Kind::page_down}, {Kind::enter}}));
  EXPECT_EQ(keys_in("\033[1;5Cx\xc3\xa9"), (std::vector<Key>{typed('x')})) << "unknown ones";
}

TEST(TopKeys, AnEscapeAloneIsAKeyOnceNothingFollows) {
  EXPECT_TRUE(keys_in("\033").empty());
  EXPECT_TRUE(keys_in("\033[").empty());
  EXPECT_EQ(keys_in("\033", true), (std::vector<Key>{{Kind::escape}}));
  EXPECT_EQ(keys_in("\033q"), (std::vector<Key>{{Kind::escape}, typed('q')}));
}

}  // namespace
}  // namespace verbena::top
