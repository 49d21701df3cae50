// Conversation: when an acknowledgement may wait for the program's answer.

#include "engine/conversation.h"

#include <gtest/gtest.h>

namespace verbena::engine {
namespace {

using namespace std::chrono_literals;

struct ConversationTest : testing::Test {
  /// A message, and `after` that the answer to it. Returns how long its acknowledgement may wait.
  Duration exchange(Duration after) {
    now += 1ms;
    const Duration wait = conversation.heard(now);
    conversation.answered(now + after);
    return wait;
  }
  void make_a_habit() {
    for (unsigned i = 0; i < Conversation::kHabit; ++i) EXPECT_EQ(exchange(10us), 0us) << i;
  }

  Conversation conversation;
  Instant now{};
};

TEST_F(ConversationTest, SomeAnswersMakeAHabit) {
  make_a_habit();
  EXPECT_EQ(exchange(10us), Conversation::kPatience);
  EXPECT_EQ(exchange(10us), Conversation::kPatience);
}

TEST_F(ConversationTest, ALateAnswerEndsIt) {
  make_a_habit();
  EXPECT_EQ(exchange(Conversation::kPatience), Conversation::kPatience);
  EXPECT_EQ(exchange(Conversation::kPatience + 1ns), Conversation::kPatience);
  make_a_habit();
}

TEST_F(ConversationTest, AStreamOfMessagesEndsIt) {
  make_a_habit();
  EXPECT_EQ(conversation.heard(now), Conversation::kPatience);
  EXPECT_EQ(conversation.heard(now), 0us);
  conversation.answered(now);
  EXPECT_EQ(exchange(10us), 0us);
}

TEST_F(ConversationTest, AProgramThatSleepsHasNone) {
  make_a_habit();
  conversation.woken();
  make_a_habit();
}

TEST_F(ConversationTest, WhoSpeaksUnaskedAnswersNobody) {
  for (unsigned i = 0; i < 2 * Conversation::kHabit; ++i) conversation.answered(now);
  EXPECT_EQ(conversation.heard(now), 0us);
}

}  // namespace
}  // namespace verbena::engine
