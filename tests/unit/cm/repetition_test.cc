// Lost, repeated, late and foreign messages, and time.

#include <cerrno>

#include "tests/unit/cm/two_hosts.h"

namespace verbena::cm {
namespace {

class Repetition : public TwoHosts {};

/// 4.096 us * (2^20 + 2^19): the peer's time, and the way.
constexpr Duration kRequestInterval{4096ll * ((1 << 20) + (1 << 19))};
constexpr Duration kReplyInterval{4096ll << 20};

TEST_F(Repetition, ARequestIsRepeatedTwiceEarlyAndFifteenTimesThenUnreachable) {
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

TEST_F(Repetition, MraMakesItWaitLonger) {
  listen();
  ASSERT_TRUE(a.cm.connect(request(), now).ok());
  const auto req = a.sent_one();
  deliver(req);
  ASSERT_EQ(b.told().size(), 1u);
  pass_to_deadline(a);
  pass_to_deadline(a);
  (void)a.sent();  // the early ones
  pass_to_deadline(a);
  deliver(a.sent_one());  // the same again: the owner of B is slow
  const auto mra = b.sent_one();
  EXPECT_EQ(message_of<packet::CmMra>(mra).message, packet::CmAnswered::req);
  EXPECT_EQ(message_of<packet::CmMra>(mra).service_timeout.value(), 24);
  deliver(mra);
  EXPECT_EQ(a.cm.next_deadline() - now, Duration{4096ll << 24});
  pass(1s);
  deliver(mra);
  EXPECT_EQ(a.cm.next_deadline() - now, Duration{4096ll << 24} - 1s) << "a second MRA adds nothing";
  EXPECT_TRUE(b.told().empty());
}

TEST_F(Repetition, ARepeatedRequestGetsTheReplyAgain) {
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

TEST_F(Repetition, ARepeatedReplyGetsMraThenRtu) {
  listen();
  const auto id = a.cm.connect(request(), now);
  settle();
  ASSERT_TRUE(b.cm.accept(b.told_one().id, reply(), now).ok());
  const auto rep = b.sent_one();
  deliver(rep);
  EXPECT_EQ(a.told().size(), 1u);
  now += kReplyInterval;
  deliver(rep);
  EXPECT_EQ(message_of<packet::CmMra>(a.sent_one()).message, packet::CmAnswered::rep);
  ASSERT_TRUE(a.cm.establish(*id, {3}).ok());
  const auto rtu = a.sent_one();
  deliver(rep);
  EXPECT_EQ(a.sent_one().bytes, rtu.bytes);
  EXPECT_TRUE(a.told().empty());
}

/// Who gave the reply has nothing to say to one.
TEST_F(Repetition, AReplyToThePassiveEndIsDropped) {
  const auto ids = established();
  ASSERT_TRUE(a.cm.disconnect(ids.a, {}, now).ok());
  const auto m = message_of<packet::CmDreq>(a.sent_one());
  deliver(a, 1, packet::CmRep{.local_id = m.local_id, .remote_id = m.remote_id});
  EXPECT_TRUE(b.sent().empty());
  EXPECT_EQ(b.cm.counters().drop_state, 1u);
  EXPECT_EQ(b.cm.state(ids.b), State::established);
}

TEST_F(Repetition, AReplyIsRepeatedThenUnreachable) {
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

/// The kernel would take it for a new request.
TEST_F(Repetition, ARejectedRequestIsRejectedAgain) {
  listen();
  ASSERT_TRUE(a.cm.connect(request(), now).ok());
  const auto req = a.sent_one();
  deliver(req);
  ASSERT_TRUE(b.cm.reject(b.told_one().id, {.private_data = {1}}).ok());
  const auto rej = b.sent_one();
  pass(60s);
  deliver(req);
  EXPECT_EQ(b.sent_one().bytes, rej.bytes);
  EXPECT_TRUE(b.told().empty());
  EXPECT_EQ(b.cm.answers(), 1u);
  pass(60s);
  EXPECT_EQ(b.cm.answers(), 0u);
}

/// Who was asked for patience repeats its request for a quarter of an hour.
TEST_F(Repetition, AfterAnMraARejectIsRememberedLonger) {
  listen();
  ASSERT_TRUE(a.cm.connect(request(), now).ok());
  const auto req = a.sent_one();
  deliver(req);
  const auto id = b.told_one().id;
  now += kRequestInterval / 2;
  deliver(req);
  deliver(b.sent_one());  // the MRA
  ASSERT_TRUE(b.cm.reject(id, {}).ok());
  (void)b.sent();  // lost
  Duration waited{};
  while (a.cm.connections() != 0) {
    pass_to_deadline(a);
    waited = now - Instant{1h};
    b.cm.expire(now);
    for (const auto& mad : a.sent()) {
      if (decoded(mad).message.index() == 0) deliver(mad);  // each REQ comes, each REJ is lost
    }
    (void)b.sent();
    EXPECT_TRUE(b.told().empty()) << "after " << waited.count() << " ns";
  }
  EXPECT_GT(waited, 17min);
}

TEST_F(Repetition, ALateRequestOfAnEndedConnectionIsStale) {
  listen();
  const auto id = a.cm.connect(request(), now);
  const auto req = a.sent_one();
  deliver(req);
  const auto passive = b.told_one().id;
  ASSERT_TRUE(b.cm.accept(passive, reply(), now).ok());
  settle();
  ASSERT_TRUE(a.cm.establish(*id).ok());
  settle();
  ASSERT_TRUE(a.cm.disconnect(*id, {}, now).ok());
  settle();
  ASSERT_TRUE(b.cm.disconnect(passive, {}, now).ok());
  settle();
  EXPECT_EQ(b.cm.state(passive), State::timewait);
  (void)b.told();
  deliver(req);
  EXPECT_EQ(message_of<packet::CmRej>(b.sent_one()).reason, RejectReason::stale_connection);
  EXPECT_TRUE(b.told().empty());
}

/// A was restarted: the same queue pair asks again, under a new id.
TEST_F(Repetition, ANewRequestOfALiveQueuePairIsStale) {
  const auto ids = established();
  ASSERT_TRUE(a.cm.connect(request(), now).ok());
  deliver(a.sent_one());
  const auto mads = b.sent();
  ASSERT_EQ(mads.size(), 2u);
  EXPECT_EQ(message_of<packet::CmRej>(mads[0]).reason, RejectReason::stale_connection);
  EXPECT_EQ(message_of<packet::CmDreq>(mads[1]).remote_qpn, Qpn{0x111});
  EXPECT_EQ(b.cm.state(ids.b), State::dreq_sent);
  EXPECT_EQ(b.cm.counters().stale_connections, 1u);
  deliver(mads);
  const auto events = a.told();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, EventKind::rejected);
  EXPECT_EQ(events[0].status, 10);
  EXPECT_EQ(events[1].kind, EventKind::disconnected);
}

TEST_F(Repetition, AStaleReplyIsRejected) {
  established();
  auto p = request();
  p.offer.qpn = Qpn{0x112};
  const auto id = a.cm.connect(p, now);
  settle();
  ASSERT_TRUE(b.cm.accept(b.told_one().id, reply(), now).ok());  // B's queue pair once more
  deliver(b.sent_one());
  const Event told = a.told_one();
  EXPECT_EQ(told.kind, EventKind::connect_error);
  EXPECT_EQ(told.id, *id);
  EXPECT_EQ(told.status, -ESTALE);
  const auto mads = a.sent();
  ASSERT_EQ(mads.size(), 2u);
  EXPECT_EQ(message_of<packet::CmRej>(mads[0]).reason, RejectReason::stale_connection);
}

TEST_F(Repetition, TakenBackRequestsEnd) {
  listen();
  const auto id = a.cm.connect(request(), now);
  settle();
  const auto passive = b.told_one().id;
  a.cm.destroy(*id, now);
  const auto rej = a.sent_one();
  EXPECT_EQ(message_of<packet::CmRej>(rej).remote_id, CommId{});
  deliver(rej);
  const Event told = b.told_one();
  EXPECT_EQ(told.kind, EventKind::rejected);
  EXPECT_EQ(told.id, passive);
  EXPECT_EQ(told.status, 4);
  EXPECT_EQ(a.cm.connections() + b.cm.connections(), 0u);
  EXPECT_TRUE(a.told().empty());
}

TEST_F(Repetition, AReplyToNobodyIsRejected) {
  listen();
  const auto id = a.cm.connect(request(), now);
  settle();
  a.cm.destroy(*id, now);
  (void)a.sent();  // lost
  ASSERT_TRUE(b.cm.accept(b.told_one().id, reply(), now).ok());
  settle();
  const Event told = b.told_one();
  EXPECT_EQ(told.kind, EventKind::rejected);
  EXPECT_EQ(told.status, 6);
  EXPECT_EQ(b.cm.connections(), 0u);
}

TEST_F(Repetition, AnRtuToATakenBackReplyGetsTheReject) {
  listen();
  const auto id = a.cm.connect(request(), now);
  settle();
  const auto passive = b.told_one().id;
  ASSERT_TRUE(b.cm.accept(passive, reply(), now).ok());
  settle();
  b.cm.destroy(passive, now);
  (void)b.sent();  // lost
  ASSERT_TRUE(a.cm.establish(*id).ok());
  (void)a.told();
  settle();
  const Event told = a.told_one();
  EXPECT_EQ(told.kind, EventKind::rejected);
  EXPECT_EQ(told.status, 28);
  EXPECT_EQ(a.cm.state(*id), State::timewait);
}

TEST_F(Repetition, AnotherProcessesMessagesAreLeftAlone) {
  const CommId other = CommId::of_slot(77, 1);
  deliver(a, 1, packet::CmDreq{.local_id = CommId{1}, .remote_id = other});
  deliver(a, 1, packet::CmRep{.local_id = CommId{1}, .remote_id = other});
  deliver(a, 1, packet::CmRej{.local_id = CommId{1}, .remote_id = other});
  deliver(a, 1, packet::CmSidrRep{.request_id = other});
  EXPECT_TRUE(b.sent().empty());
  EXPECT_EQ(b.cm.counters().drop_other_slot, 4u);
}

/// Whoever sends from another address isn't the peer, whatever ids he knows.
TEST_F(Repetition, StrangersChangeNothing) {
  const auto ids = established();
  const auto stranger = IpAddress::v4({10, 0, 0, 66});
  ASSERT_TRUE(a.cm.disconnect(ids.a, {}, now).ok());
  const auto dreq = a.sent_one();
  b.cm.receive({.route = {.local = b.address, .remote = stranger}, .bytes = dreq.bytes}, now);
  EXPECT_EQ(b.cm.state(ids.b), State::established);
  const auto m = message_of<packet::CmDreq>(dreq);
  const auto rej =
      packet::encode_cm({1, packet::CmRej{.local_id = m.local_id, .remote_id = m.remote_id}});
  b.cm.receive({.route = {.local = b.address, .remote = stranger}, .bytes = rej}, now);
  EXPECT_EQ(b.cm.state(ids.b), State::established);
  EXPECT_TRUE(b.told().empty());
  EXPECT_TRUE(b.sent().empty());
  EXPECT_EQ(b.cm.counters().drop_source, 1u);
}

TEST_F(Repetition, BytesThatAreNoMessageAreCounted) {
  for (const std::size_t size : {0u, 24u, 255u, 256u}) {
    const std::vector<std::uint8_t> zeros(size);
    b.cm.receive({.route = {.local = b.address, .remote = a.address}, .bytes = zeros}, now);
  }
  EXPECT_EQ(b.cm.counters().drop_malformed[0], 3u);  // size
  EXPECT_EQ(b.cm.counters().drop_malformed[1], 1u);  // base version
  EXPECT_TRUE(b.sent().empty());
}

/// A peer may ask for 4 us and for 2.4 hours.
TEST_F(Repetition, WaitsAreBounded) {
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

}  // namespace
}  // namespace verbena::cm
