// How connections end, and that nothing is left of them.

#include <cerrno>

#include "tests/unit/cm/two_hosts.h"

namespace verbena::cm {
namespace {

class Orphans : public TwoHosts {
 protected:
  /// What it sent to the host that shares B's address.
  [[nodiscard]] static IncomingMad orphaned(const OutgoingMad& mad) {
    return {.route = {.local = mad.route.remote, .remote = mad.route.local},
            .bytes = mad.bytes,
            .orphaned = true};
  }
  TestHost neighbour{11, b.address};
};

class Disconnect : public TwoHosts {};

TEST_F(Disconnect, BothEndsHearOfItAndForget) {
  const auto ids = established();
  ASSERT_TRUE(a.cm.disconnect(ids.a, {1}, now).ok());
  settle();
  const Event at_b = b.told_one();
  EXPECT_EQ(at_b.kind, EventKind::disconnected);
  EXPECT_EQ(at_b.private_data.size(), 220u);
  EXPECT_EQ(at_b.private_data[0], 1);
  EXPECT_EQ(b.cm.state(ids.b), State::dreq_rcvd);
  EXPECT_TRUE(a.told().empty());

  ASSERT_TRUE(b.cm.disconnect(ids.b, {2}, now).ok());
  settle();
  const Event at_a = a.told_one();
  EXPECT_EQ(at_a.kind, EventKind::disconnected);
  EXPECT_EQ(at_a.status, 0);
  EXPECT_EQ(at_a.private_data.at(0), 2);
  EXPECT_EQ(a.cm.state(ids.a), State::timewait);
  EXPECT_EQ(a.cm.next_deadline() - now, Duration{4096ll << 19});

  pass(3s);
  EXPECT_EQ(a.told_one().kind, EventKind::timewait_exit);
  EXPECT_EQ(b.told_one().kind, EventKind::timewait_exit);
  EXPECT_EQ(a.cm.connections() + b.cm.connections(), 0u);
  EXPECT_EQ(a.cm.next_deadline(), kNever);
}

TEST_F(Disconnect, CrossingRequestsEndBoth) {
  const auto ids = established();
  ASSERT_TRUE(a.cm.disconnect(ids.a, {}, now).ok());
  ASSERT_TRUE(b.cm.disconnect(ids.b, {}, now).ok());
  settle();
  EXPECT_EQ(a.told_one().kind, EventKind::disconnected);
  EXPECT_EQ(b.told_one().kind, EventKind::disconnected);
  EXPECT_EQ(a.cm.state(ids.a), State::timewait);
  EXPECT_EQ(b.cm.state(ids.b), State::timewait);
}

TEST_F(Disconnect, ACrossingRequestIsAnswered) {
  const auto ids = established();
  ASSERT_TRUE(a.cm.disconnect(ids.a, {}, now).ok());
  (void)a.sent();  // lost
  ASSERT_TRUE(b.cm.disconnect(ids.b, {}, now).ok());
  settle();
  EXPECT_EQ(a.told_one().kind, EventKind::disconnected);
  EXPECT_EQ(b.told_one().kind, EventKind::disconnected);
  EXPECT_EQ(b.cm.state(ids.b), State::timewait);
}

TEST_F(Disconnect, ALostAnswerIsGivenAgain) {
  const auto ids = established();
  ASSERT_TRUE(a.cm.disconnect(ids.a, {}, now).ok());
  const auto dreq = a.sent_one();
  deliver(dreq);
  ASSERT_TRUE(b.cm.disconnect(ids.b, {}, now).ok());
  (void)b.sent();  // lost
  deliver(dreq);
  EXPECT_EQ(decoded(b.sent_one()).message.index(), 6u);  // DREP, out of timewait
  pass(3s);
  EXPECT_EQ(b.cm.connections(), 0u);
  deliver(dreq);
  const auto drep = b.sent_one();  // out of nothing
  EXPECT_EQ(decoded(drep).transaction, decoded(dreq).transaction);
  deliver(drep);
  EXPECT_EQ(a.told_one().kind, EventKind::disconnected);
}

TEST_F(Disconnect, ADeadPeerIsGivenUp) {
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

TEST_F(Disconnect, BeforeTheRtuCame) {
  listen();
  const auto id = a.cm.connect(request(), now);
  settle();
  const auto passive = b.told_one().id;
  ASSERT_TRUE(b.cm.accept(passive, reply(), now).ok());
  settle();
  ASSERT_TRUE(a.cm.establish(*id).ok());
  (void)a.sent();  // lost
  ASSERT_TRUE(a.cm.disconnect(*id, {}, now).ok());
  settle();
  EXPECT_EQ(b.told_one().kind, EventKind::disconnected);
  EXPECT_EQ(b.cm.state(passive), State::dreq_rcvd);
}

TEST_F(Disconnect, AWrongQueuePairIsNotMeant) {
  const auto ids = established();
  ASSERT_TRUE(a.cm.disconnect(ids.a, {}, now).ok());
  auto m = message_of<packet::CmDreq>(a.sent_one());
  m.remote_qpn = Qpn{0x333};
  deliver(a, 1, m);
  EXPECT_EQ(b.cm.state(ids.b), State::established);
  EXPECT_TRUE(b.sent().empty());
}

TEST_F(Disconnect, DestroyTellsThePeerUntilItKnows) {
  const auto ids = established();
  a.cm.destroy(ids.a, now);
  (void)a.sent();  // lost
  pass_to_deadline(a);
  settle();
  EXPECT_EQ(b.told_one().kind, EventKind::disconnected);
  b.cm.destroy(ids.b, now);
  settle();
  pass(3s);
  EXPECT_TRUE(a.told().empty());
  EXPECT_TRUE(b.told().empty());
  EXPECT_EQ(a.cm.connections() + b.cm.connections(), 0u);
}

TEST_F(Disconnect, DestroyInEveryState) {
  // A request that nobody answered, one that was told to the owner, one that was accepted.
  listen();
  const auto req_sent = a.cm.connect(request(), now);
  deliver(a.sent());
  const auto req_rcvd = b.told_one().id;
  b.cm.destroy(req_rcvd, now);
  settle();
  EXPECT_EQ(a.told_one().status, 28);
  EXPECT_EQ(a.cm.state(*req_sent), std::nullopt);

  const auto again = a.cm.connect(request(), now);
  settle();
  const auto rep_sent = b.told_one().id;
  ASSERT_TRUE(b.cm.accept(rep_sent, reply(), now).ok());
  deliver(b.sent());
  EXPECT_EQ(a.told_one().kind, EventKind::connect_response);
  a.cm.destroy(*again, now);
  settle();
  EXPECT_EQ(b.told_one().status, 28);
  EXPECT_EQ(a.cm.connections() + b.cm.connections(), 0u);
}

TEST_F(Disconnect, AlternatePathsAreRefused) {
  const auto ids = established();
  ASSERT_TRUE(a.cm.disconnect(ids.a, {}, now).ok());
  const auto m = message_of<packet::CmDreq>(a.sent_one());
  deliver(a, 7, packet::CmLap{.local_id = m.local_id, .remote_id = m.remote_id});
  const auto known = b.sent_one();
  EXPECT_EQ(message_of<packet::CmApr>(known).status, packet::AprStatus::unsupported);
  EXPECT_EQ(decoded(known).transaction, 7u);
  deliver(a, 7,
          packet::CmLap{.local_id = m.local_id, .remote_id = CommId{m.remote_id.value() ^ 1}});
  EXPECT_EQ(message_of<packet::CmApr>(b.sent_one()).status, packet::AprStatus::invalid_comm_id);
}

/// A process that shares the address of one that was killed speaks for it.
TEST_F(Orphans, ADisconnectIsAgreedTo) {
  const auto ids = established();
  ASSERT_TRUE(a.cm.disconnect(ids.a, {}, now).ok());
  const auto dreq = a.sent_one();
  neighbour.cm.receive(orphaned(dreq), now);
  deliver(neighbour.sent_one());
  EXPECT_EQ(a.told_one().kind, EventKind::disconnected);
}

TEST_F(Orphans, AReplyIsRefused) {
  listen();
  ASSERT_TRUE(a.cm.connect(request(), now).ok());
  deliver(a.sent());
  ASSERT_TRUE(b.cm.accept(b.told_one().id, reply(), now).ok());
  const auto rep = b.sent_one();
  TestHost other{7, a.address};
  other.cm.receive(
      {.route = {.local = a.address, .remote = b.address}, .bytes = rep.bytes, .orphaned = true},
      now);
  deliver(other.sent_one());
  EXPECT_EQ(b.told_one().kind, EventKind::rejected);
}

TEST_F(Orphans, OfTheLivingNobodyElseSpeaks) {
  const auto ids = established();
  ASSERT_TRUE(a.cm.disconnect(ids.a, {}, now).ok());
  const auto dreq = a.sent_one();
  auto mad = orphaned(dreq);
  mad.orphaned = false;
  neighbour.cm.receive(mad, now);
  EXPECT_TRUE(neighbour.sent().empty());
  EXPECT_EQ(neighbour.cm.counters().drop_other_slot, 1u);
}

TEST_F(Disconnect, WhoEndsAnswersGoodbyesOnceMore) {
  const auto ids = established();
  ASSERT_TRUE(a.cm.disconnect(ids.a, {}, now).ok());
  settle();
  EXPECT_EQ(b.told_one().kind, EventKind::disconnected);
  ASSERT_TRUE(b.cm.disconnect(ids.b, {}, now).ok());
  static_cast<void>(b.sent_one());  // lost
  b.cm.answer_goodbyes_again();
  settle();
  EXPECT_EQ(a.told_one().kind, EventKind::disconnected);
  EXPECT_EQ(a.cm.state(ids.a), State::timewait);
  a.cm.answer_goodbyes_again();
  EXPECT_TRUE(a.sent().empty()) << "it was A's own good-bye";
}

}  // namespace
}  // namespace verbena::cm
