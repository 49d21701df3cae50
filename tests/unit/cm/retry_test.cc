// REQ, REP, DREQ and SIDR_REQ are sent again when they or their answers are lost, then given up.

#include <cerrno>

#include "tests/unit/cm/two_hosts.h"

namespace verbena::cm {
namespace {

class Retry : public TwoHosts {};

TEST_F(Retry, AReqIsRetriedTwiceEarlyAndFifteenTimesThenUnreachable) {
  const auto id = a.cm.connect(request(), now);
  const auto first = a.sent_one();
  const Instant begin = now;
  std::vector<Duration> expected{200ms, 1s};
  for (int i = 1; i <= 15; ++i) expected.push_back(i * kRequestInterval);
  for (const Duration when : expected) {
    pass_to_deadline(a);
    EXPECT_EQ(now - begin, when);
    const auto again = a.sent_one();
    EXPECT_EQ(again.bytes, first.bytes);
    EXPECT_TRUE(a.told().empty());
  }
  pass_to_deadline(a);
  const Event told = a.told_one();
  EXPECT_EQ(told.kind, EventKind::unreachable);
  EXPECT_EQ(told.id, *id);
  EXPECT_EQ(told.status, -ETIMEDOUT);
  EXPECT_EQ(now - begin, 16 * kRequestInterval);
  const auto rej = message_of<packet::CmRej>(a.sent_one());
  EXPECT_EQ(rej.reason, RejectReason::timeout);
  EXPECT_EQ(rej.info_length, 8);
  EXPECT_EQ(a.cm.connections(), 0u);
  EXPECT_EQ(a.cm.counters().tx_retries[CmAttribute::req], 17u);
  EXPECT_EQ(a.cm.counters().timeouts, 1u);
}

TEST_F(Retry, ARepIsRetriedThenUnreachable) {
  listen();
  ASSERT_TRUE(a.cm.connect(request(), now).ok());
  settle();
  const auto id = b.told_one().id;
  const Instant begin = now;
  ASSERT_TRUE(b.cm.accept(id, reply(), now).ok());
  for (int i = 0; i < 18; ++i) {                           // two of them early
    EXPECT_EQ(decoded(b.sent_one()).message.index(), 3u);  // REP
    EXPECT_TRUE(b.told().empty());
    pass_to_deadline(b);
  }
  EXPECT_EQ(now - begin, 16 * kReplyInterval);
  const Event told = b.told_one();
  EXPECT_EQ(told.kind, EventKind::unreachable);
  EXPECT_EQ(told.status, -ETIMEDOUT);
  EXPECT_EQ(message_of<packet::CmRej>(b.sent_one()).reason, RejectReason::timeout);
  EXPECT_EQ(b.cm.connections(), 0u);
}

TEST_F(Retry, ADreqIsRetriedThenDisconnected) {
  const auto ids = established();
  ASSERT_TRUE(a.cm.disconnect(ids.a, {}, now).ok());
  const Instant begin = now;
  for (int i = 0; i < 18; ++i) {  // two of them early
    EXPECT_EQ(a.sent().size(), 1u);
    EXPECT_TRUE(a.told().empty());
    pass_to_deadline(a);
  }
  EXPECT_EQ(now - begin, 16 * Duration{4096ll * ((1 << 20) + (1 << 19))});
  const Event told = a.told_one();
  EXPECT_EQ(told.kind, EventKind::disconnected);
  EXPECT_EQ(told.status, -ETIMEDOUT);
  pass_to_deadline(a);
  EXPECT_EQ(a.told_one().kind, EventKind::timewait_exit);
  EXPECT_EQ(a.cm.connections(), 0u);
}

TEST_F(Retry, ARetriedReqGetsTheRepAgain) {
  listen();
  ASSERT_TRUE(a.cm.connect(request(), now).ok());
  const auto req = a.sent_one();
  deliver(req);
  ASSERT_TRUE(b.cm.accept(b.told_one().id, reply(), now).ok());
  const auto rep = b.sent_one();
  deliver(req);
  EXPECT_EQ(b.sent_one().bytes, rep.bytes);
  EXPECT_TRUE(b.told().empty());
  EXPECT_EQ(b.cm.counters().rx_duplicates[CmAttribute::req], 1u);
}

/// A peer may ask for 4 us and for 2.4 hours.
TEST_F(Retry, WaitsAreBounded) {
  listen();
  auto p = request();
  p.response_timeout = packet::CmTimeout{0};
  p.ack_timeout = packet::CmTimeout{0};
  ASSERT_TRUE(a.cm.connect(p, now).ok());
  settle();
  ASSERT_TRUE(b.cm.accept(b.told_one().id, reply(), now).ok());
  EXPECT_GE(b.cm.next_deadline() - now, 1ms);
  p.response_timeout = packet::CmTimeout{31};
  p.offer.qpn = Qpn{0x7};
  (void)b.sent();
  ASSERT_TRUE(a.cm.connect(p, now).ok());
  deliver(a.sent());
  ASSERT_TRUE(b.cm.accept(b.told_one().id, reply(), now + 1h).ok());
  pass(1h);
  pass(70s);
  EXPECT_LE(b.cm.next_deadline() - now, 70s);
}

class EarlyRetry : public TwoHosts {
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

TEST_F(EarlyRetry, ALostReqCostsAFifthOfASecond) {
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

TEST_F(EarlyRetry, TwoLostReqsCostASecond) {
  listen();
  ASSERT_TRUE(a.cm.connect(request(), now).ok());
  (void)a.sent();
  pass_to_deadline(a);
  (void)a.sent();
  settle_until_told(b);
  EXPECT_EQ(b.told_one().kind, EventKind::connect_request);
  EXPECT_EQ(now - begin, 1s);
}

TEST_F(EarlyRetry, ALostRepCostsAFifthOfASecond) {
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

TEST_F(EarlyRetry, ALostRtuCostsAFifthOfASecond) {
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

TEST_F(EarlyRetry, ALostDreqCostsAFifthOfASecond) {
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

TEST_F(EarlyRetry, ALostSidrReqCostsAFifthOfASecond) {
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
TEST_F(EarlyRetry, SlowOwnersSendNoMraAtFirst) {
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

/// Every message comes twice, each time.
TEST_F(EarlyRetry, DoubledConversationsAreOneConnection) {
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
