#include "engine/pace.h"

#include <gtest/gtest.h>

#include <utility>

#include "engine/window.h"

namespace verbena::engine {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kCost = Window::truesize(4096);
constexpr std::uint32_t kDefaultBuffer = 212'992;
constexpr Instant kStart = Instant{} + 1h;

constexpr Pace::Mark mark(std::uint32_t number) { return {Qpn{17}, Psn{number}}; }

/// Sends until a mark is due, and the mark.
std::uint32_t send_and_mark(Pace& pace, Pace::Mark behind, Instant now) {
  for (std::uint32_t packets = 1;; ++packets) {
    if (!pace.sent(kCost, now)) continue;
    pace.mark_sent(behind, now);
    return packets;
  }
}

std::uint32_t send_until_closed(Pace& pace, Instant now) {
  std::uint32_t packets = 0;
  for (; pace.fits(kCost); ++packets) static_cast<void>(pace.sent(kCost, now));
  return packets;
}

TEST(Pace, StopsAFixedDistanceAheadOfTheReceiver) {
  Pace pace;
  EXPECT_EQ(send_and_mark(pace, mark(5), kStart), 7u);
  EXPECT_EQ(send_until_closed(pace, kStart), 6u);
  EXPECT_FALSE(pace.reached(mark(4), kDefaultBuffer));
  EXPECT_FALSE(pace.reached({Qpn{18}, Psn{5}}, kDefaultBuffer));
  EXPECT_FALSE(pace.fits(kCost));
  EXPECT_TRUE(pace.reached(mark(5), kDefaultBuffer));
  EXPECT_TRUE(pace.fits(kCost));
  EXPECT_FALSE(pace.reached(mark(5), kDefaultBuffer));
  // What left behind the mark counts for the next.
  EXPECT_EQ(send_and_mark(pace, mark(9), kStart), 1u);
}

TEST(Pace, GivesUpAMarkThatNobodyAnswers) {
  Pace pace;
  send_and_mark(pace, mark(5), kStart);
  send_until_closed(pace, kStart);
  EXPECT_EQ(pace.deadline(), kStart + 100ms);
  pace.expire(kStart + 99ms);
  EXPECT_FALSE(pace.fits(kCost));
  pace.expire(kStart + 100ms);
  EXPECT_TRUE(pace.fits(kCost));
  EXPECT_EQ(pace.deadline(), kNever);
}

TEST(Pace, WaitsLongerForAPeerThatIsKnownToBeLikeUs) {
  Pace pace{true};
  send_and_mark(pace, mark(5), kStart);
  EXPECT_EQ(pace.deadline(), kStart + 500ms);
  pace.expire(kStart + 500ms);  // perhaps there is nobody
  send_and_mark(pace, mark(9), kStart + 500ms);
  EXPECT_EQ(pace.deadline(), kStart + 600ms);
}

TEST(Pace, DoesNotWaitForAnAnswerThatNobodyWouldHear) {
  Pace pace;
  send_and_mark(pace, mark(5), kStart);
  send_until_closed(pace, kStart);
  EXPECT_FALSE(pace.forget(Qpn{18}));
  EXPECT_FALSE(pace.fits(kCost));
  EXPECT_TRUE(pace.forget(Qpn{17}));
  EXPECT_TRUE(pace.fits(kCost));
  EXPECT_FALSE(pace.reached(mark(5), kDefaultBuffer));
}

TEST(Pace, LeavesAPeerAloneThatNeverAnswers) {
  Pace pace;
  for (int i = 0; i < 2; ++i) {
    send_and_mark(pace, mark(5), kStart);
    pace.expire(pace.deadline());
  }
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(pace.fits(kCost));
    ASSERT_FALSE(pace.sent(kCost, kStart + 1s));
  }
  send_and_mark(pace, mark(6), kStart + 61s);  // it may be another by now
}

TEST(Pace, WaitsLongerForAPeerThatHasAnswered) {
  Pace pace;
  send_and_mark(pace, mark(5), kStart);
  EXPECT_TRUE(pace.reached(mark(5), kDefaultBuffer));
  send_and_mark(pace, mark(6), kStart);
  EXPECT_EQ(pace.deadline(), kStart + 500ms);
}

TEST(Pace, FillsHalfOfALargerBuffer) {
  for (const auto& [buffer, packets] : {std::pair{0u, 7u}, {425'984u, 13u}, {~0u, 63u}}) {
    Pace pace;
    send_and_mark(pace, mark(5), kStart);
    EXPECT_TRUE(pace.reached(mark(5), buffer));
    EXPECT_EQ(send_and_mark(pace, mark(6), kStart), packets) << buffer;
  }
}

}  // namespace
}  // namespace verbena::engine
