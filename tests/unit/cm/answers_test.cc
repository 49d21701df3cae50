#include "cm/answers.h"

#include <gtest/gtest.h>

namespace verbena::cm {
namespace {

using namespace std::chrono_literals;

RequestKey key(std::uint32_t n) { return {IpAddress::v4({10, 0, 0, 1}), packet::CommId{n}, n}; }
OutgoingMad mad(std::uint8_t n) {
  OutgoingMad m;
  m.bytes[0] = n;
  return m;
}

TEST(Answers, AreKeptUntilTheirTime) {
  Answers answers{10};
  const Instant now{1h};
  answers.remember(key(1), mad(1), now + 1s);
  answers.remember(key(2), mad(2), now + 2s);
  EXPECT_EQ(answers.next_deadline(), now + 1s);
  answers.expire(now + 1s);
  EXPECT_EQ(answers.find(key(1)), nullptr);
  ASSERT_NE(answers.find(key(2)), nullptr);
  EXPECT_EQ(answers.find(key(2))->bytes[0], 2);
  answers.remember(key(2), mad(3), now + 5s);  // another one replaces it
  answers.expire(now + 2s);
  ASSERT_NE(answers.find(key(2)), nullptr);
  EXPECT_EQ(answers.find(key(2))->bytes[0], 3);
  answers.expire(now + 5s);
  EXPECT_EQ(answers.size(), 0u);
  EXPECT_EQ(answers.next_deadline(), kNever);
}

TEST(Answers, WithoutRoomTheFirstToGoGoes) {
  Answers answers{2};
  const Instant now{1h};
  answers.remember(key(1), mad(1), now + 9s);
  answers.remember(key(2), mad(2), now + 2s);
  answers.remember(key(3), mad(3), now + 5s);
  EXPECT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers.find(key(2)), nullptr);
  EXPECT_NE(answers.find(key(1)), nullptr);
}

TEST(Answers, AnotherTransactionIsAnotherRequest) {
  Answers answers{2};
  answers.remember(key(1), mad(1), Instant{2h});
  RequestKey other = key(1);
  other.transaction = 99;
  EXPECT_EQ(answers.find(other), nullptr);
}

}  // namespace
}  // namespace verbena::cm
