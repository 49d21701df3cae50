// REQ, SIDR_REQ and DREQ that the network reports as undelivered.

#include <cerrno>

#include "tests/unit/cm/two_hosts.h"

namespace verbena::cm {
namespace {

class Undelivered : public TwoHosts {
 protected:
  /// The network reports this message as undelivered.
  void bounce(const OutgoingMad& mad, int code = ECONNREFUSED) {
    a.cm.undelivered({.route = mad.route, .bytes = mad.bytes}, code, now);
  }
  [[nodiscard]] SidrRequestParameters resolution() const {
    return {.source = a.address,
            .destination = b.address,
            .service = {PortSpace::udp, kPort},
            .source_port = 40'000};
  }
};

TEST_F(Undelivered, AReqIsRetriedSoonAndGivenUpAfterThreeSeconds) {
  const auto id = a.cm.connect(request(), now);
  ASSERT_TRUE(id.ok());
  const auto first = a.sent_one();
  const Instant begin = now;
  bounce(first);
  for (int i = 0; i < 100 && a.cm.state(*id); ++i) {
    const Instant before = now;
    pass_to_deadline(a);
    EXPECT_LE(now - before, UndeliveredBackoff::kMaxDelay);
    const auto again = a.sent_one();
    EXPECT_EQ(again.bytes, first.bytes);
    EXPECT_TRUE(a.told().empty());
    bounce(again);
  }
  EXPECT_GE(now - begin, UndeliveredBackoff::kGiveUpAfter);
  EXPECT_LE(now - begin, UndeliveredBackoff::kGiveUpAfter + UndeliveredBackoff::kMaxDelay);
  const Event told = a.told_one();
  EXPECT_EQ(told.kind, EventKind::unreachable);
  EXPECT_EQ(told.status, -ECONNREFUSED);
  EXPECT_EQ(a.cm.counters().undelivered, 1u);
  EXPECT_EQ(a.cm.connections(), 0u);
  EXPECT_TRUE(a.sent().empty()) << "there is nobody to tell";
}

TEST_F(Undelivered, APeerThatStartsMeanwhileIsConnectedTo) {
  const auto id = a.cm.connect(request(), now);
  ASSERT_TRUE(id.ok());
  bounce(a.sent_one());
  pass_to_deadline(a);
  bounce(a.sent_one());
  listen();
  pass_to_deadline(a);
  settle();
  EXPECT_EQ(b.told_one().kind, EventKind::connect_request);
  EXPECT_TRUE(a.told().empty());
}

TEST_F(Undelivered, OneReportOnlyAddsARetry) {
  const auto id = a.cm.connect(request(), now);
  ASSERT_TRUE(id.ok());
  bounce(a.sent_one());
  const Instant begin = now;
  pass_to_deadline(a);
  EXPECT_EQ(now - begin, UndeliveredBackoff::kFirstDelay);
  static_cast<void>(a.sent_one());
  // From here on the network is silent: all fifteen retries are left, and the early ones.
  int retries = 0;
  while (a.cm.state(*id) && retries < 100) {
    pass_to_deadline(a);
    retries += a.cm.state(*id) ? 1 : 0;
  }
  EXPECT_EQ(retries, 2 + 15);
  EXPECT_EQ(now - begin, 16 * Duration{4096ll * ((1 << 20) + (1 << 19))});
  EXPECT_EQ(a.told_one().status, -ETIMEDOUT);
}

TEST_F(Undelivered, ReportsThatDoNotQuoteTheReqAreDropped) {
  const auto id = a.cm.connect(request(), now);
  ASSERT_TRUE(id.ok());
  const auto sent = a.sent_one();
  const Instant deadline = a.cm.next_deadline();

  auto forged = sent;
  forged.bytes[200] ^= 1;
  bounce(forged);
  auto elsewhere = sent;
  elsewhere.route.remote = IpAddress::v4({10, 0, 0, 3});
  bounce(elsewhere);
  a.cm.undelivered({.route = sent.route, .bytes = std::span{sent.bytes}.first(100)}, ECONNREFUSED,
                   now);
  EXPECT_EQ(a.cm.next_deadline(), deadline);
  EXPECT_EQ(a.cm.counters().drop_undelivered, 2u);
}

TEST_F(Undelivered, ReportsAfterTheAnswerAreDropped) {
  listen();
  const auto id = a.cm.connect(request(), now);
  ASSERT_TRUE(id.ok());
  const auto sent = a.sent_one();
  deliver(sent);
  ASSERT_TRUE(b.cm.accept(b.told_one().id, reply(), now).ok());
  settle();
  EXPECT_EQ(a.told_one().kind, EventKind::connect_response);
  for (int i = 0; i < 10; ++i) {
    now += 1s;
    bounce(sent);
  }
  EXPECT_EQ(a.cm.state(*id), State::rep_rcvd);
  EXPECT_TRUE(a.told().empty());
}

TEST_F(Undelivered, ADreqIsGivenUpToo) {
  const auto ids = established();
  ASSERT_TRUE(a.cm.disconnect(ids.a, {}, now).ok());
  const Instant begin = now;
  bounce(a.sent_one());
  for (int i = 0; i < 100 && a.cm.state(ids.a) == State::dreq_sent; ++i) {
    pass_to_deadline(a);
    bounce(a.sent_one());
  }
  EXPECT_GE(now - begin, UndeliveredBackoff::kGiveUpAfter);
  EXPECT_LE(now - begin, UndeliveredBackoff::kGiveUpAfter + UndeliveredBackoff::kMaxDelay);
  const Event told = a.told_one();
  EXPECT_EQ(told.kind, EventKind::disconnected);
  EXPECT_EQ(told.status, -ETIMEDOUT);
  EXPECT_EQ(a.cm.state(ids.a), State::timewait);
}

TEST_F(Undelivered, AnEstablishedConnectionIsLeftAlone) {
  listen();
  const auto id = a.cm.connect(request(), now);
  ASSERT_TRUE(id.ok());
  const auto req = a.sent_one();
  deliver(req);
  ASSERT_TRUE(b.cm.accept(b.told_one().id, reply(), now).ok());
  settle();
  static_cast<void>(a.told_one());
  ASSERT_TRUE(a.cm.establish(*id).ok());
  const auto rtu = a.sent_one();
  for (int i = 0; i < 10; ++i) {
    now += 1s;
    bounce(req);
    bounce(rtu);
  }
  EXPECT_EQ(a.cm.state(*id), State::established);
  EXPECT_TRUE(a.told().empty());
}

TEST_F(Undelivered, ASidrReqIsGivenUpToo) {
  const auto id = a.cm.sidr_request(resolution(), now);
  ASSERT_TRUE(id.ok());
  const Instant begin = now;
  bounce(a.sent_one(), EHOSTUNREACH);
  for (int i = 0; i < 100 && a.cm.connections() > 0; ++i) {
    pass_to_deadline(a);
    bounce(a.sent_one(), EHOSTUNREACH);
  }
  EXPECT_GE(now - begin, UndeliveredBackoff::kGiveUpAfter);
  EXPECT_LE(now - begin, UndeliveredBackoff::kGiveUpAfter + UndeliveredBackoff::kMaxDelay);
  const Event told = a.told_one();
  EXPECT_EQ(told.kind, EventKind::unreachable);
  EXPECT_EQ(told.status, -EHOSTUNREACH);
  EXPECT_TRUE(told.datagram);
}

}  // namespace
}  // namespace verbena::cm
