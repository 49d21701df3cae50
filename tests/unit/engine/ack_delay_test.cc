// AckDelay: when an acknowledgement may wait for the program's answer.

#include "engine/ack_delay.h"

#include <gtest/gtest.h>

namespace verbena::engine {
namespace {

using namespace std::chrono_literals;

struct AckDelayTest : testing::Test {
  /// A message, and `after` that the answer to it. Returns how long its acknowledgement may wait.
  Duration exchange(Duration after) {
    now += 1ms;
    const Duration wait = ack_delay.heard(now);
    ack_delay.answered(now + after);
    return wait;
  }
  void make_a_habit() {
    for (unsigned i = 0; i < AckDelay::kHabit; ++i) EXPECT_EQ(exchange(10us), 0us) << i;
  }

  AckDelay ack_delay;
  Instant now{};
};

TEST_F(AckDelayTest, SomeAnswersMakeAHabit) {
  make_a_habit();
  EXPECT_EQ(exchange(10us), AckDelay::kLongest);
  EXPECT_EQ(exchange(10us), AckDelay::kLongest);
}

TEST_F(AckDelayTest, ALateAnswerEndsIt) {
  make_a_habit();
  EXPECT_EQ(exchange(AckDelay::kLongest), AckDelay::kLongest);
  EXPECT_EQ(exchange(AckDelay::kLongest + 1ns), AckDelay::kLongest);
  make_a_habit();
}

TEST_F(AckDelayTest, AStreamOfMessagesEndsIt) {
  make_a_habit();
  EXPECT_EQ(ack_delay.heard(now), AckDelay::kLongest);
  EXPECT_EQ(ack_delay.heard(now), 0us);
  ack_delay.answered(now);
  EXPECT_EQ(exchange(10us), 0us);
}

TEST_F(AckDelayTest, AProgramThatSleepsHasNone) {
  make_a_habit();
  ack_delay.woken();
  make_a_habit();
}

TEST_F(AckDelayTest, WhoSpeaksUnaskedAnswersNobody) {
  for (unsigned i = 0; i < 2 * AckDelay::kHabit; ++i) ack_delay.answered(now);
  EXPECT_EQ(ack_delay.heard(now), 0us);
}

}  // namespace
}  // namespace verbena::engine
