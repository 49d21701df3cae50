// A queue pair of a connection that is still there asks for another one (IBA 12.9.8.3.1).

#include <cerrno>

#include "tests/unit/cm/two_hosts.h"

namespace verbena::cm {
namespace {

class StaleConnection : public TwoHosts {};

/// A was restarted: the same queue pair asks again, under a new id.
TEST_F(StaleConnection, ANewReqOfALiveQueuePairEndsTheOldConnection) {
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

TEST_F(StaleConnection, AStaleRepIsRejected) {
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

}  // namespace
}  // namespace verbena::cm
