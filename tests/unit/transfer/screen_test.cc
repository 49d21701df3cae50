#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tools/transfer/progress.h"
#include "tools/transfer/question.h"

namespace verbena::transfer {
namespace {

TEST(TransferScreen, SizesHaveTheirUnits) {
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(999), "999 B");
  EXPECT_EQ(size_text(1000), "1.0 kB");
  EXPECT_EQ(size_text(123'456'789), "123 MB");
  EXPECT_EQ(size_text(999'999'999), "1.0 GB");
  EXPECT_EQ(time_text(7), "0:07");
  EXPECT_EQ(time_text(3723), "1:02:03");
  EXPECT_EQ(time_text(1e12), "--:--");
}

TEST(TransferScreen, TheBarFitsItsLine) {
  Tally tally;
  tally.bytes_total = 1000;
  tally.bytes_sent = 600;
  tally.bytes_resent = 100;
  for (unsigned width = 1; width < 200; ++width) {
    EXPECT_LE(bar_text(tally, 1, width).size(), width);
  }
  const std::string bar = bar_text(tally, 1, 120);
  EXPECT_NE(bar.find(" 50 %"), std::string::npos) << bar;
  EXPECT_NE(bar.find("100 B resent"), std::string::npos) << bar;
  EXPECT_NE(bar.find("0:01 left"), std::string::npos) << bar;
}

TEST(TransferScreen, JsonHasEveryNumber) {
  Tally tally;
  tally.placed = 3;
  const auto line = nlohmann::json::parse(json_text(tally, "end", 1.5));
  EXPECT_EQ(line.at("event"), "end");
  EXPECT_EQ(line.at("placed"), 3);
  EXPECT_EQ(line.at("encrypted"), false);
}

TEST(TransferScreen, AnswersAreYesNoOrForAll) {
  EXPECT_EQ(answer_from("y\n"), Answer::yes);
  EXPECT_EQ(answer_from("no\n"), Answer::no);
  EXPECT_EQ(answer_from("a\n"), Answer::all);
  EXPECT_EQ(answer_from("s \n"), Answer::none);
  EXPECT_EQ(answer_from("\n"), Answer::unclear);
  EXPECT_EQ(answer_from("what"), Answer::unclear);
}

}  // namespace
}  // namespace verbena::transfer
