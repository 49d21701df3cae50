// DREQ and DREP, and that nothing is left of the connection.

#include "tests/unit/cm/two_hosts.h"

namespace verbena::cm {
namespace {

class Disconnect : public TwoHosts {};

TEST_F(Disconnect, BothEndsAreToldAndForget) {
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

TEST_F(Disconnect, CrossingDreqsEndBoth) {
  const auto ids = established();
  ASSERT_TRUE(a.cm.disconnect(ids.a, {}, now).ok());
  ASSERT_TRUE(b.cm.disconnect(ids.b, {}, now).ok());
  settle();
  EXPECT_EQ(a.told_one().kind, EventKind::disconnected);
  EXPECT_EQ(b.told_one().kind, EventKind::disconnected);
  EXPECT_EQ(a.cm.state(ids.a), State::timewait);
  EXPECT_EQ(b.cm.state(ids.b), State::timewait);
}

TEST_F(Disconnect, ACrossingDreqIsAnswered) {
  const auto ids = established();
  ASSERT_TRUE(a.cm.disconnect(ids.a, {}, now).ok());
  (void)a.sent();  // lost
  ASSERT_TRUE(b.cm.disconnect(ids.b, {}, now).ok());
  settle();
  EXPECT_EQ(a.told_one().kind, EventKind::disconnected);
  EXPECT_EQ(b.told_one().kind, EventKind::disconnected);
  EXPECT_EQ(b.cm.state(ids.b), State::timewait);
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

TEST_F(Disconnect, ADreqForAnotherQueuePairIsDropped) {
  const auto ids = established();
  ASSERT_TRUE(a.cm.disconnect(ids.a, {}, now).ok());
  auto m = message_of<packet::CmDreq>(a.sent_one());
  m.remote_qpn = Qpn{0x333};
  deliver(a, 1, m);
  EXPECT_EQ(b.cm.state(ids.b), State::established);
  EXPECT_TRUE(b.sent().empty());
}

TEST_F(Disconnect, DrepsAreResentBeforeTheEnd) {
  const auto ids = established();
  ASSERT_TRUE(a.cm.disconnect(ids.a, {}, now).ok());
  settle();
  EXPECT_EQ(b.told_one().kind, EventKind::disconnected);
  ASSERT_TRUE(b.cm.disconnect(ids.b, {}, now).ok());
  static_cast<void>(b.sent_one());  // lost
  b.cm.resend_dreps();
  settle();
  EXPECT_EQ(a.told_one().kind, EventKind::disconnected);
  EXPECT_EQ(a.cm.state(ids.a), State::timewait);
  a.cm.resend_dreps();
  EXPECT_TRUE(a.sent().empty()) << "the DREQ was A's own";
}

}  // namespace
}  // namespace verbena::cm
