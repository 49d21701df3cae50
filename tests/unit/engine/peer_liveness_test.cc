#include "engine/peer_liveness.h"

#include <gtest/gtest.h>

namespace verbena::engine {
namespace {

using namespace std::chrono_literals;

constexpr Instant kBegin{1s};

/// A request lies before byte 100 of its ring; nothing was outstanding before it.
struct PeerLivenessTest : testing::Test {
  PeerLivenessTest() { peer.sent({.written = 100}, true, kBegin); }
  bool is_only_slow(packet::Passage passage) {
    passage.written = 1000;  // by others
    passage.back_room = 50;
    return peer.is_only_slow(passage, kBegin + (++periods) * 100ms);
  }
  PeerLiveness peer;
  int periods = 0;
};

TEST_F(PeerLivenessTest, WhoTakesNothingIsDead) {
  EXPECT_FALSE(is_only_slow({}));
  EXPECT_FALSE(is_only_slow({}));
}

TEST_F(PeerLivenessTest, WhoTakesOrSendsSomethingIsSlow) {
  EXPECT_TRUE(is_only_slow({.taken = 10}));
  EXPECT_TRUE(is_only_slow({.taken = 20}));
  EXPECT_TRUE(is_only_slow({.taken = 20, .received = 5}));
  EXPECT_FALSE(is_only_slow({.taken = 20, .received = 5}));
}

TEST_F(PeerLivenessTest, WhoHasTheRequestHasAPeriodToAnswer) {
  EXPECT_TRUE(is_only_slow({.taken = 100}));
  EXPECT_FALSE(is_only_slow({.taken = 200})) << "it takes what others send";
}

TEST_F(PeerLivenessTest, AnAnswerMayLieBehindWhatWeHaveNotRead) {
  EXPECT_TRUE(is_only_slow({.taken = 100, .received = 10, .unread = true}));
  EXPECT_TRUE(is_only_slow({.taken = 100, .received = 59, .unread = true}));
  EXPECT_FALSE(is_only_slow({.taken = 100, .received = 60, .unread = true}));
}

TEST_F(PeerLivenessTest, WhoHasYetToFindTheRingHasTwoSeconds) {
  while (periods < 19) EXPECT_TRUE(is_only_slow({.unopened = true})) << periods;
  EXPECT_FALSE(is_only_slow({.unopened = true}));
}

TEST_F(PeerLivenessTest, EachAnswerBeginsAnew) {
  EXPECT_TRUE(is_only_slow({.taken = 100}));
  peer.answered();
  peer.sent({.written = 1000, .taken = 100}, false, kBegin);
  EXPECT_TRUE(is_only_slow({.taken = 500}));
  EXPECT_TRUE(is_only_slow({.taken = 999}));
}

}  // namespace
}  // namespace verbena::engine
