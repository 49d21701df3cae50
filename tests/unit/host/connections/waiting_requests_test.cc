#include "host/connections/waiting_requests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace verbena::host {
namespace {

using namespace std::chrono_literals;

struct WaitingRequestsTest : testing::Test {
  void ask(std::uint8_t number, Duration patience = WaitingRequests::kPatience) {
    const std::vector<std::uint8_t> bytes(20, number);
    packet::Datagram d;
    d.bytes = bytes;
    ASSERT_TRUE(waiting.add(d, now, patience));
  }
  /// The requests that are looked at now; `taken` of them find a listener.
  std::vector<std::uint8_t> look(std::vector<std::uint8_t> taken) {
    std::vector<std::uint8_t> seen;
    waiting.look(now, [&](const packet::Datagram& d, Instant, bool last) {
      seen.push_back(d.bytes[0]);
      lasts.push_back(last);
      return std::find(taken.begin(), taken.end(), d.bytes[0]) != taken.end();
    });
    return seen;
  }

  Instant now{1s};
  WaitingRequests waiting;
  std::vector<bool> lasts;
};

TEST_F(WaitingRequestsTest, NothingToLookAfterWithoutRequests) {
  EXPECT_EQ(waiting.next_look(), kNever);
}

TEST_F(WaitingRequestsTest, KeepsTheBytesUntilAListenerComes) {
  ask(1);
  ask(2);
  EXPECT_EQ(waiting.next_look(), now + WaitingRequests::kInterval);
  now += WaitingRequests::kInterval;
  EXPECT_EQ(look({2}), (std::vector<std::uint8_t>{1, 2}));
  now += WaitingRequests::kInterval;
  EXPECT_EQ(look({1}), std::vector<std::uint8_t>{1});
  EXPECT_EQ(waiting.next_look(), kNever);
}

TEST_F(WaitingRequestsTest, IsOverAfterItsPatience) {
  ask(1);
  now += WaitingRequests::kPatience - 1ns;
  EXPECT_EQ(look({}), std::vector<std::uint8_t>{1});
  now += 1ns;
  EXPECT_EQ(look({}), std::vector<std::uint8_t>{1});
  EXPECT_EQ(lasts, (std::vector<bool>{false, true}));
  EXPECT_EQ(look({}), std::vector<std::uint8_t>{});
  EXPECT_EQ(waiting.next_look(), kNever);
}

TEST_F(WaitingRequestsTest, IsMorePatientWithAPortThatSomebodyHas) {
  ask(1);
  ask(2, WaitingRequests::kPatienceIfBound);
  now += WaitingRequests::kPatience;
  EXPECT_EQ(look({}), (std::vector<std::uint8_t>{1, 2}));
  EXPECT_EQ(lasts, (std::vector<bool>{true, false}));
  now += WaitingRequests::kPatienceIfBound - WaitingRequests::kPatience;
  EXPECT_EQ(look({}), std::vector<std::uint8_t>{2});
  EXPECT_TRUE(lasts.back());
}

TEST_F(WaitingRequestsTest, HasALimit) {
  for (std::size_t i = 0; i < WaitingRequests::kMost; ++i) ask(1);
  const std::vector<std::uint8_t> bytes(20);
  packet::Datagram d;
  d.bytes = bytes;
  EXPECT_FALSE(waiting.add(d, now));
}

}  // namespace
}  // namespace verbena::host
