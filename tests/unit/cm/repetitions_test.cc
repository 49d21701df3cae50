// What is lost is repeated soon, and nobody minds what was not lost.

#include "cm/repetitions.h"

#include "tests/unit/cm/two_hosts.h"

namespace verbena::cm {
namespace {

TEST(RepetitionsTest, AShortIntervalHasNoRoomForEarlyOnes) {
  const Instant t{1h};
  EXPECT_EQ(Repetitions(t, 399ms, 1).next(), t + 399ms);
  Repetitions one{t, 400ms, 1};
  EXPECT_EQ(one.next(), t + 200ms);
  EXPECT_TRUE(one.again(t + 200ms));
  EXPECT_EQ(one.next(), t + 400ms);
}

TEST(RepetitionsTest, WhatIsOverdueIsRepeatedOnce) {
  const Instant t{1h};
  Repetitions r{t, 4s, 1};
  r.ask(t + 3s);
  EXPECT_TRUE(r.again(t + 5s));
  EXPECT_EQ(r.next(), t + 9s);
  EXPECT_FALSE(r.again(t + 9s));
}

TEST(RepetitionsTest, WhatIsAskedForIsNotCounted) {
  const Instant t{1h};
  Repetitions r{t, 10s, 0};
  r.ask(t + 100ms);
  EXPECT_EQ(r.next(), t + 100ms);
  EXPECT_TRUE(r.again(r.next()));
  EXPECT_EQ(r.next(), t + 200ms);
  EXPECT_TRUE(r.again(r.next()));
  EXPECT_EQ(r.next(), t + 1s);
  EXPECT_TRUE(r.again(r.next()));
  EXPECT_EQ(r.next(), t + 10s);
  EXPECT_FALSE(r.again(r.next()));
}

TEST(RepetitionsTest, APeerThatNeedsTimeIsLeftAlone) {
  const Instant t{1h};
  Repetitions r{t, 10s, 1};
  r.ask(t + 300ms);
  r.wait_longer(t + 100ms, 60s);
  EXPECT_EQ(r.next(), t + 60'100ms);
  EXPECT_TRUE(r.again(r.next()));
  EXPECT_EQ(r.next(), t + 120'100ms);
}

class EarlyRepetition : public TwoHosts {
 protected:
  /// Time passes, and both ends' messages arrive, until there is an event.
  void settle_until_told(TestHost& host) {
    for (int i = 0; i < 10 && host.cm.events().empty(); ++i) {
      now = std::min(a.cm.next_deadline(), b.cm.next_deadline());
      a.cm.expire(now);
      b.cm.expire(now);
      settle();
    }
  }
  [[nodiscard]] std::uint64_t mras() const {
    return a.cm.counters().tx_msgs[CmAttribute::mra] + b.cm.counters().tx_msgs[CmAttribute::mra];
  }
  /// The ends are connected, they were told so once, and nothing is left to say.
  void expect_established(ConnectionId active, ConnectionId passive) {
    EXPECT_EQ(a.cm.state(active), State::established);
    EXPECT_EQ(b.cm.state(passive), State::established);
    EXPECT_EQ(a.cm.connections() + b.cm.connections(), 2u);
    EXPECT_EQ(a.cm.next_deadline(), kNever);
    EXPECT_EQ(b.cm.next_deadline(), kNever);
    EXPECT_TRUE(a.told().empty());
    EXPECT_TRUE(b.told().empty());
    EXPECT_EQ(mras(), 0u);
  }

  Instant begin = now;
};

TEST_F(EarlyRepetition, ALostRequestCostsAFifthOfASecond) {
  listen();
  const auto id = a.cm.connect(request(), now);
  (void)a.sent();  // lost
  settle_until_told(b);
  EXPECT_EQ(now - begin, 200ms);
  const auto passive = b.told_one().id;
  ASSERT_TRUE(b.cm.accept(passive, reply(), now).ok());
  settle();
  EXPECT_EQ(a.told_one().kind, EventKind::connect_response);
  ASSERT_TRUE(a.cm.establish(*id).ok());
  settle();
  EXPECT_EQ(b.told_one().kind, EventKind::established);
  EXPECT_EQ(a.cm.counters().tx_retries[CmAttribute::req], 1u);
  expect_established(*id, passive);
}

TEST_F(EarlyRepetition, TwoLostRequestsCostASecond) {
  listen();
  ASSERT_TRUE(a.cm.connect(request(), now).ok());
  (void)a.sent();
  pass_to_deadline(a);
  (void)a.sent();
  settle_until_told(b);
  EXPECT_EQ(b.told_one().kind, EventKind::connect_request);
  EXPECT_EQ(now - begin, 1s);
}

TEST_F(EarlyRepetition, ALostReplyCostsAFifthOfASecond) {
  listen();
  const auto id = a.cm.connect(request(), now);
  settle();
  const auto passive = b.told_one().id;
  ASSERT_TRUE(b.cm.accept(passive, reply(), now).ok());
  (void)b.sent();  // lost
  settle_until_told(a);
  EXPECT_EQ(now - begin, 200ms);
  EXPECT_EQ(a.told_one().kind, EventKind::connect_response);
  ASSERT_TRUE(a.cm.establish(*id).ok());
  settle();
  EXPECT_EQ(b.told_one().kind, EventKind::established);
  expect_established(*id, passive);
}

TEST_F(EarlyRepetition, ALostRtuCostsAFifthOfASecond) {
  listen();
  const auto id = a.cm.connect(request(), now);
  settle();
  const auto passive = b.told_one().id;
  ASSERT_TRUE(b.cm.accept(passive, reply(), now).ok());
  settle();
  EXPECT_EQ(a.told_one().kind, EventKind::connect_response);
  ASSERT_TRUE(a.cm.establish(*id, {3}).ok());
  (void)a.sent();  // lost
  settle_until_told(b);
  EXPECT_EQ(now - begin, 200ms);
  const Event told = b.told_one();
  EXPECT_EQ(told.kind, EventKind::established);
  EXPECT_EQ(told.private_data[0], 3);
  EXPECT_EQ(b.cm.counters().tx_retries[CmAttribute::rep], 1u);
  EXPECT_EQ(a.cm.counters().tx_retries[CmAttribute::rtu], 1u);
  EXPECT_EQ(a.cm.counters().rx_duplicates[CmAttribute::rep], 1u);
  expect_established(*id, passive);
}

TEST_F(EarlyRepetition, ALostGoodbyeCostsAFifthOfASecond) {
  const auto ids = established();
  ASSERT_TRUE(a.cm.disconnect(ids.a, {}, now).ok());
  (void)a.sent();  // lost
  settle_until_told(b);
  EXPECT_EQ(b.told_one().kind, EventKind::disconnected);
  EXPECT_EQ(now - begin, 200ms);
  ASSERT_TRUE(b.cm.disconnect(ids.b, {}, now).ok());
  (void)b.sent();  // the DREP, too
  settle_until_told(a);
  const Event told = a.told_one();
  EXPECT_EQ(told.kind, EventKind::disconnected);
  EXPECT_EQ(told.status, 0);
  EXPECT_EQ(now - begin, 1s);
}

TEST_F(EarlyRepetition, ALostResolutionCostsAFifthOfASecond) {
  const ServiceId udp{PortSpace::udp, kPort};
  ASSERT_TRUE(b.cm.listen({.service = udp, .datagram = true}).ok());
  ASSERT_TRUE(
      a.cm.sidr_request({.source = a.address, .destination = b.address, .service = udp}, now).ok());
  (void)a.sent();  // lost
  settle_until_told(b);
  EXPECT_EQ(now - begin, 200ms);
  ASSERT_TRUE(b.cm.sidr_reply(b.told_one().id, {.qpn = Qpn{7}}).ok());
  (void)b.sent();  // lost
  settle_until_told(a);
  EXPECT_EQ(now - begin, 1s);
  EXPECT_EQ(a.told_one().kind, EventKind::established);
  EXPECT_EQ(b.cm.counters().rx_duplicates[CmAttribute::sidr_req], 1u);
  EXPECT_TRUE(b.told().empty());
}

/// Nothing is lost, but both programs take two seconds.
TEST_F(EarlyRepetition, SlowOwnersAreNotMindedAtFirst) {
  listen();
  const auto id = a.cm.connect(request(), now);
  settle();
  const auto passive = b.told_one().id;
  for (int i = 0; i < 20; ++i) {
    pass(100ms);
    settle();
  }
  EXPECT_EQ(b.cm.counters().rx_duplicates[CmAttribute::req], 2u);
  ASSERT_TRUE(b.cm.accept(passive, reply(), now).ok());
  settle();
  EXPECT_EQ(a.told_one().kind, EventKind::connect_response);
  for (int i = 0; i < 20; ++i) {
    pass(100ms);
    settle();
  }
  EXPECT_EQ(a.cm.counters().rx_duplicates[CmAttribute::rep], 2u);
  ASSERT_TRUE(a.cm.establish(*id).ok());
  settle();
  EXPECT_EQ(b.told_one().kind, EventKind::established);
  expect_established(*id, passive);
}

/// From half of the peer's interval on a repetition is one that the peer counts.
TEST_F(EarlyRepetition, PatienceIsAskedForFromHalfOfTheIntervalOn) {
  listen();
  const auto id = a.cm.connect(request(), now);
  const auto req = a.sent_one();
  deliver(req);
  const auto passive = b.told_one().id;
  const Duration half_request{2048ll * ((1 << 20) + (1 << 19))};
  now += half_request - 1ns;
  deliver(req);
  EXPECT_TRUE(b.sent().empty());
  now += 1ns;
  deliver(req);
  EXPECT_EQ(message_of<packet::CmMra>(b.sent_one()).message, packet::CmAnswered::req);

  ASSERT_TRUE(b.cm.accept(passive, reply(), now).ok());
  const auto rep = b.sent_one();
  deliver(rep);
  const Duration half_reply{2048ll << 20};
  now += half_reply - 1ns;
  deliver(rep);
  EXPECT_TRUE(a.sent().empty());
  now += 1ns;
  deliver(rep);
  EXPECT_EQ(message_of<packet::CmMra>(a.sent_one()).message, packet::CmAnswered::rep);
  EXPECT_EQ(a.cm.state(*id), State::rep_rcvd);
}

/// Every message comes twice, each time.
TEST_F(EarlyRepetition, DoubledConversationsAreOneConnection) {
  const auto settle_doubled = [this] {
    while (!a.cm.outbox().empty() || !b.cm.outbox().empty()) {
      for (auto* host : {&a, &b}) {
        for (const auto& mad : host->sent()) {
          deliver(mad);
          deliver(mad);
        }
      }
    }
  };
  listen();
  const auto id = a.cm.connect(request(), now);
  settle_doubled();
  const auto passive = b.told_one().id;
  ASSERT_TRUE(b.cm.accept(passive, reply(), now).ok());
  settle_doubled();
  EXPECT_EQ(a.told_one().kind, EventKind::connect_response);
  ASSERT_TRUE(a.cm.establish(*id).ok());
  settle_doubled();
  EXPECT_EQ(b.told_one().kind, EventKind::established);
  EXPECT_EQ(b.cm.counters().rx_duplicates[CmAttribute::req], 1u);
  EXPECT_EQ(a.cm.counters().rx_duplicates[CmAttribute::rep], 1u);
  EXPECT_EQ(b.cm.counters().rx_duplicates[CmAttribute::rtu], 1u);
  expect_established(*id, passive);
  ASSERT_TRUE(a.cm.disconnect(*id, {}, now).ok());
  settle_doubled();
  EXPECT_EQ(b.told_one().kind, EventKind::disconnected);
  ASSERT_TRUE(b.cm.disconnect(passive, {}, now).ok());
  settle_doubled();
  EXPECT_EQ(a.told_one().kind, EventKind::disconnected);
}

}  // namespace
}  // namespace verbena::cm
