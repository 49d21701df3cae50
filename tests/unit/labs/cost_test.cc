// What --stats says of a lab's work: sums of stretches, and no figure that nobody knows.

#include "labs/common/cost.h"

#include <gtest/gtest.h>

#include <thread>

namespace {

TEST(LabCost, WithoutWorkThereIsNothingToSay) { EXPECT_EQ(lab::cost_of_work(), ""); }

TEST(LabCost, CountsTheCompletionsOfItsOwnThreadBetweenStartAndDone) {
  rdma::completions_taken += 5;  // as CompletionQueue::poll() does
  lab::Work work;
  rdma::completions_taken += 3;
  std::thread{[] { rdma::completions_taken += 100; }}.join();
  EXPECT_EQ(work.done().completions, 3u);
}

TEST(LabCost, AddsWhatIsKnownAndKeepsQuietAboutTheRest) {
  lab::Cost sum{.completions = 2, .spent = {}, .known = {.needed = 1}};
  sum += lab::Cost{.completions = 3, .spent = {}, .known = {.round_trips = 4, .needed = 2}};
  EXPECT_EQ(sum.completions, 5u);
  EXPECT_EQ(sum.known.needed, 3u);
  EXPECT_EQ(sum.known.round_trips, 4u);
  EXPECT_EQ(sum.known.copied, std::nullopt);
}

TEST(LabCost, SaysWhatAllStretchesTogetherCost) {
  lab::add_cost({.completions = 1000, .spent = {}, .known = {.needed = 10}});
  const std::string text = lab::cost_of_work();
  EXPECT_NE(text.find("completions taken: 100"), std::string::npos) << text;  // and earlier ones
  EXPECT_NE(text.find(", needed: 10;"), std::string::npos) << text;
  EXPECT_EQ(text.find("round trips"), std::string::npos) << text;
  EXPECT_EQ(text.find("copied"), std::string::npos) << text;
}

}  // namespace
