// Late messages of an ended connection.

#include "tests/unit/cm/two_hosts.h"

namespace verbena::cm {
namespace {

class Timewait : public TwoHosts {};

TEST_F(Timewait, ALateReqIsRejectedAsStale) {
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

TEST_F(Timewait, ARetriedDreqGetsTheDrepAgain) {
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

}  // namespace
}  // namespace verbena::cm
